// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interrupt entries and ids, doorbell assignments, addresses used before IP discovery.

use rkfd_abi::bits::{DwField, Field};
use rkfd_abi::{doorbell, ih, mmio, regs};
use rkfd_abi_oracle::csource::{block, defines, macros};
use rkfd_abi_oracle::{amd_text, fact, kernel_source, place, same, shift_mask, Program};

/// Adds a fact for the bits of an interrupt entry that a C macro reads, probed bit by bit.
fn probe(program: Program, name: &str, expr: &str, field: DwField) -> Program {
    program
        .block(
            name,
            place(field),
            &format!(
                "uint32_t entry[8]; for (int dw = 0; dw < 8; dw++) for (int bit = 0; bit < 32; bit++) {{ \
                 memset(entry, 0, sizeof entry); entry[dw] = 1u << bit; \
                 if ({expr}) v |= (uint64_t)dw << 32 | 1u << bit; }}"
            ),
        )
        .block(
            &format!("{name} shift"),
            u64::from(field.field.max()),
            &format!("uint32_t entry[8]; memset(entry, 0xff, sizeof entry); v = (uint32_t)({expr})"),
        )
}

#[test]
fn entry() {
    let fields = [
        ("CLIENT_ID", ih::CLIENT_ID),
        ("SOURCE_ID", ih::SOURCE_ID),
        ("RING_ID", ih::RING_ID),
        ("VMID", ih::VMID),
        ("VMID_TYPE", ih::VMID_TYPE),
        ("PASID", ih::PASID),
        ("NODEID", ih::NODE_ID),
        ("CONTEXT_ID0", ih::CONTEXT_ID0),
        ("CONTEXT_ID1", ih::CONTEXT_ID1),
        ("CONTEXT_ID2", ih::CONTEXT_ID2),
        ("CONTEXT_ID3", ih::CONTEXT_ID3),
    ];
    for (name, takes_entry) in macros(&amd_text("amdkfd/soc15_int.h")) {
        if let Some(field) = name.strip_suffix("_FROM_IH_ENTRY") {
            let field = field.strip_prefix("SOC15_").expect("name");
            assert!(
                takes_entry && fields.iter().any(|(n, _)| *n == field),
                "{name}"
            );
        }
    }
    let mut program = Program::new().include("amdkfd/soc15_int.h");
    for (name, field) in fields {
        program = probe(
            program,
            name,
            &format!("SOC15_{name}_FROM_IH_ENTRY(entry)"),
            field,
        );
    }
    program.check();
}

/// The decoder of amdgpu, which also reads the timestamp.
#[test]
fn entry_as_amdgpu_decodes_it() {
    let text = amd_text("amdgpu/amdgpu_ih.c");
    let decoder = block(&text, "void amdgpu_ih_decode_iv_helper(", "}");
    let prelude = "
        struct amdgpu_device { int x; };
        struct amdgpu_ih_ring { uint32_t rptr; uint32_t *ring; };
        struct amdgpu_iv_entry { unsigned client_id, src_id, ring_id, vmid, vmid_src; uint64_t timestamp;
            unsigned timestamp_src, pasid, node_id, src_data[4]; };";
    let decode = "({ struct amdgpu_ih_ring r = { 0, entry }; struct amdgpu_iv_entry e; \
                  amdgpu_ih_decode_iv_helper(0, &r, &e); e.FIELD; })";
    let mut program = Program::new().text(prelude).text(&decoder);
    for (name, field) in [
        ("client_id", ih::CLIENT_ID),
        ("src_id", ih::SOURCE_ID),
        ("ring_id", ih::RING_ID),
        ("vmid", ih::VMID),
        ("vmid_src", ih::VMID_TYPE),
        ("timestamp & 0xffffffff", ih::TIMESTAMP_LO),
        ("timestamp >> 32", ih::TIMESTAMP_HI),
        ("timestamp_src", ih::TIMESTAMP_SRC),
        ("pasid", ih::PASID),
        ("node_id", ih::NODE_ID),
        ("src_data[0]", ih::CONTEXT_ID0),
        ("src_data[1]", ih::CONTEXT_ID1),
        ("src_data[2]", ih::CONTEXT_ID2),
        ("src_data[3]", ih::CONTEXT_ID3),
    ] {
        program = probe(program, name, &decode.replace("FIELD", name), field);
    }
    program
        .block(
            "entry size",
            ih::ENTRY_SIZE as u64,
            "uint32_t entry[8] = { 0 }; struct amdgpu_ih_ring r = { 0, entry }; struct amdgpu_iv_entry e; \
             amdgpu_ih_decode_iv_helper(0, &r, &e); v = r.rptr",
        )
        .check();
}

#[test]
fn clients_and_sources() {
    use ih::{client as c, source as s};
    let clients = [
        ("IH", c::IH),
        ("ATHUB", c::ATHUB),
        ("BIF", c::BIF),
        ("RLC", c::RLC),
        ("SDMA0", c::SDMA0),
        ("SDMA1", c::SDMA1),
        ("SDMA2", c::SDMA2),
        ("SDMA3", c::SDMA3),
        ("SE0SH", c::SE0SH),
        ("SE1SH", c::SE1SH),
        ("SE2SH", c::SE2SH),
        ("SE3SH", c::SE3SH),
        ("VMC", c::VMC),
        ("GRBM_CP", c::GRBM_CP),
        ("DF", c::DF),
        ("UTCL2", c::UTCL2),
        ("MP0", c::MP0),
        ("MP1", c::MP1),
    ];
    Program::new()
        .include("amdkfd/soc15_int.h")
        .include("include/ivsrcid/gfx/irqsrcs_gfx_9_0.h")
        .include("include/ivsrcid/sdma0/irqsrcs_sdma0_4_0.h")
        .include("include/ivsrcid/vmc/irqsrcs_vmc_1_0.h")
        .facts(clients.map(|(name, ours)| same(&format!("SOC15_IH_CLIENTID_{name}"), ours)))
        .facts([
            same("SOC15_INTSRC_CP_END_OF_PIPE", s::CP_END_OF_PIPE),
            same("SOC15_INTSRC_CP_BAD_OPCODE", s::CP_BAD_OPCODE),
            same("SOC15_INTSRC_SQ_INTERRUPT_MSG", s::SQ_INTERRUPT_MSG),
            same("SOC15_INTSRC_VMC_FAULT", s::VM_FAULT),
            same("SOC15_INTSRC_SDMA_TRAP", s::SDMA_TRAP),
            same("SOC15_INTSRC_SDMA_ECC", s::SDMA_ECC),
            same("GFX_9_0__SRCID__CP_EOP_INTERRUPT", s::CP_END_OF_PIPE),
            same(
                "GFX_9_0__SRCID__CP_PM4_PKT_RSVD_BIT_ERROR",
                s::CP_PM4_RESERVED_BIT,
            ),
            same("GFX_9_0__SRCID__CP_BAD_OPCODE_ERROR", s::CP_BAD_OPCODE),
            same("GFX_9_0__SRCID__CP_PRIV_REG_FAULT", s::CP_PRIV_REG_FAULT),
            same(
                "GFX_9_0__SRCID__CP_PRIV_INSTR_FAULT",
                s::CP_PRIV_INSTR_FAULT,
            ),
            same(
                "GFX_9_0__SRCID__CP_COMPUTE_QUERY_STATUS",
                s::CP_COMPUTE_QUERY_STATUS,
            ),
            same("GFX_9_0__SRCID__CP_VM_DOORBELL", s::CP_VM_DOORBELL),
            same("GFX_9_0__SRCID__SQ_INTERRUPT_ID", s::SQ_INTERRUPT_MSG),
            same("VMC_1_0__SRCID__VM_FAULT", s::VM_FAULT),
            same("VMC_1_0__SRCID__VM_RETRY", s::VM_RETRY),
            same("UTCL2_1_0__SRCID__FAULT", s::VM_FAULT),
            same("UTCL2_1_0__SRCID__RETRY", s::VM_RETRY),
        ])
        .check();
}

#[test]
fn sdma_sources() {
    use ih::source as s;
    const HEADER: &str = "include/ivsrcid/sdma0/irqsrcs_sdma0_4_0.h";
    let sources = [
        ("ATOMIC_RTN_DONE", s::SDMA_ATOMIC_RTN_DONE),
        ("ATOMIC_TIMEOUT", s::SDMA_ATOMIC_TIMEOUT),
        ("IB_PREEMPT", s::SDMA_IB_PREEMPT),
        ("ECC", s::SDMA_ECC),
        ("PAGE_FAULT", s::SDMA_PAGE_FAULT),
        ("PAGE_NULL", s::SDMA_PAGE_NULL),
        ("XNACK", s::SDMA_XNACK),
        ("TRAP", s::SDMA_TRAP),
        ("SEM_INCOMPLETE_TIMEOUT", s::SDMA_SEM_INCOMPLETE_TIMEOUT),
        ("SEM_WAIT_FAIL_TIMEOUT", s::SDMA_SEM_WAIT_FAIL_TIMEOUT),
        ("SRAM_ECC", s::SDMA_SRAM_ECC),
        ("PREEMPT", s::SDMA_PREEMPT),
        ("VM_HOLE", s::SDMA_VM_HOLE),
        ("CTXEMPTY", s::SDMA_CTXEMPTY),
        ("DOORBELL_INVALID", s::SDMA_DOORBELL_INVALID),
        ("FROZEN", s::SDMA_FROZEN),
        ("POLL_TIMEOUT", s::SDMA_POLL_TIMEOUT),
        ("SRBMWRITE", s::SDMA_SRBMWRITE),
    ];
    let all = macros(&amd_text(HEADER));
    let all = all.iter().filter(|m| m.0.contains("__SRCID__")).count();
    assert_eq!(all, sources.len());
    let fact = |(name, ours)| same(&format!("SDMA0_4_0__SRCID__SDMA_{name}"), ours);
    Program::new()
        .include(HEADER)
        .facts(sources.map(fact))
        .check();
}

#[test]
fn ids_of_gfx12() {
    use ih::{gfx12 as s, soc21 as c};
    const HEADER: &str = "include/ivsrcid/gfx/irqsrcs_gfx_12_0_0.h";
    let sources = [
        ("ATOMIC_RTN_DONE", s::SDMA_ATOMIC_RTN_DONE),
        ("TRAP", s::SDMA_TRAP),
        ("SRBMWRITE", s::SDMA_SRBMWRITE),
        ("CTXEMPTY", s::SDMA_CTXEMPTY),
        ("PREEMPT", s::SDMA_PREEMPT),
        ("IB_PREEMPT", s::SDMA_IB_PREEMPT),
        ("DOORBELL_INVALID", s::SDMA_DOORBELL_INVALID),
        ("QUEUE_HANG", s::SDMA_QUEUE_HANG),
        ("ATOMIC_TIMEOUT", s::SDMA_ATOMIC_TIMEOUT),
        ("POLL_TIMEOUT", s::SDMA_POLL_TIMEOUT),
        ("PAGE_TIMEOUT", s::SDMA_PAGE_TIMEOUT),
        ("PAGE_NULL", s::SDMA_PAGE_NULL),
        ("PAGE_FAULT", s::SDMA_PAGE_FAULT),
        ("VM_HOLE", s::SDMA_VM_HOLE),
        ("ECC", s::SDMA_ECC),
        ("FROZEN", s::SDMA_FROZEN),
        ("SRAM_ECC", s::SDMA_SRAM_ECC),
        ("SEM_INCOMPLETE_TIMEOUT", s::SDMA_SEM_INCOMPLETE_TIMEOUT),
        ("SEM_WAIT_FAIL_TIMEOUT", s::SDMA_SEM_WAIT_FAIL_TIMEOUT),
        ("FENCE", s::SDMA_FENCE),
    ];
    let all = macros(&amd_text(HEADER));
    let all = all.iter().filter(|m| m.0.contains("__SRCID__SDMA_"));
    assert_eq!(all.count(), sources.len());
    let clients = [
        ("IH", c::IH),
        ("ATHUB", c::ATHUB),
        ("BIF", c::BIF),
        ("RLC", c::RLC),
        ("GFX", c::GFX),
        ("VMC", c::VMC),
        ("GRBM_CP", c::GRBM_CP),
        ("DF", c::DF),
        ("UTCL2", c::UTCL2),
        ("MP0", c::MP0),
        ("MP1", c::MP1),
    ];
    // The driver uses the gfx11 numbers of end of pipe, bad opcode and shader message.
    let fact = |(name, ours)| same(&format!("GFX_12_0_0__SRCID__SDMA_{name}"), ours);
    Program::new()
        .include(HEADER)
        .include("include/soc15_ih_clientid.h")
        .include("include/ivsrcid/gfx/irqsrcs_gfx_11_0_0.h")
        .include("include/ivsrcid/vmc/irqsrcs_vmc_1_0.h")
        .facts(sources.map(fact))
        .facts(clients.map(|(name, ours)| same(&format!("SOC21_IH_CLIENTID_{name}"), ours)))
        .facts([
            same("UTCL2_1_0__SRCID__FAULT", s::VM_FAULT),
            same(
                "GFX_11_0_0__SRCID__CP_EOP_INTERRUPT",
                ih::source::CP_END_OF_PIPE,
            ),
            same(
                "GFX_11_0_0__SRCID__CP_BAD_OPCODE_ERROR",
                ih::source::CP_BAD_OPCODE,
            ),
            same(
                "GFX_11_0_0__SRCID__SQ_INTERRUPT_ID",
                ih::source::SQ_INTERRUPT_MSG,
            ),
        ])
        .check();
}

#[test]
fn shader_message_of_gfx11_and_later() {
    use ih::sq_v11 as q;
    let v11 = amd_text("amdkfd/kfd_int_process_v11.c");
    let wanted = |n: &str| n.starts_with("SQ_INTERRUPT_WORD") || n.starts_with("KFD_CTXID0");
    let word = |kind: &str, name: &str, field: DwField| {
        let name = format!("SQ_INTERRUPT_WORD_{kind}_CTXID{}__{name}", field.dw - 4);
        shift_mask(&name, field.field)
    };
    let mut program = Program::new().text(&defines(&v11, wanted));
    for (kind, name, field) in [
        ("WAVE", "DATA", q::DATA),
        ("WAVE", "SH_ID", q::SH_ID),
        ("WAVE", "PRIV", q::PRIV),
        ("WAVE", "WAVE_ID", q::WAVE_ID),
        ("WAVE", "SIMD_ID", q::SIMD_ID),
        ("WAVE", "WGP_ID", q::WGP_ID),
        ("WAVE", "ENCODING", q::ENCODING),
        ("AUTO", "ENCODING", q::ENCODING),
        ("ERROR", "ENCODING", q::ENCODING),
        ("ERROR", "DETAIL", q::ERROR_DETAIL),
        ("ERROR", "TYPE", q::ERROR_TYPE),
    ] {
        program = program.facts(word(kind, name, field));
    }
    program
        .facts([
            same("KFD_CTXID0_DOORBELL_ID_MASK", q::REPORT_DOORBELL_MASK),
            same("KFD_CTXID0_TRAP_CODE_SHIFT", q::REPORT_EXCEPTIONS_SHIFT),
            same("KFD_CTXID0_TRAP_CODE_MASK", q::REPORT_EXCEPTIONS_MASK),
        ])
        .check();
}

#[test]
fn context_words() {
    let v9 = amd_text("amdkfd/kfd_int_process_v9.c");
    let wanted =
        |n: &str| n.starts_with("SQ_INTERRUPT_WORD") || n.starts_with("KFD_CONTEXT_ID_GET");
    let wave = |name: &str, field: DwField| {
        assert_eq!(field.dw, 4, "{name}");
        shift_mask(
            &format!("SQ_INTERRUPT_WORD_WAVE_CTXID__{name}"),
            field.field,
        )
    };
    let data = |bits: u32, context0: bool| {
        let (a, b) = if context0 { ("~0u", "0") } else { ("0", "~0u") };
        (
            bits,
            format!("(uint32_t)KFD_CONTEXT_ID_GET_SQ_INT_DATA({a}, {b})"),
        )
    };
    let low = ih::sq::DATA.field.max() | (ih::sq::DATA_MID.field.max() << 12);
    let (low, low_expr) = data(low, true);
    let (high, high_expr) = data(ih::sq::DATA_HI.field.max() << 16, false);
    let flag = |f: DwField| {
        assert_eq!(f.dw, 5);
        f.field.mask
    };
    Program::new()
        .text(&defines(&v9, wanted))
        .text(&defines(&amd_text("amdgpu/amdgpu_gmc.h"), |n| {
            n.starts_with("AMDGPU_GMC9_FAULT")
        }))
        .facts(wave("DATA", ih::sq::DATA))
        .facts(wave("SH_ID", ih::sq::SH_ID))
        .facts(wave("PRIV", ih::sq::PRIV))
        .facts(wave("WAVE_ID", ih::sq::WAVE_ID))
        .facts(wave("SIMD_ID", ih::sq::SIMD_ID))
        .facts(wave("CU_ID", ih::sq::CU_ID))
        .facts(wave("SE_ID", ih::sq::SE_ID))
        .facts(wave("ENCODING", ih::sq::ENCODING))
        .facts([
            fact("sq data from context 0", low, low_expr),
            fact("sq data from context 1", high, high_expr),
            same(
                "AMDGPU_GMC9_FAULT_SOURCE_DATA_RETRY",
                flag(ih::fault::RETRY),
            ),
            same("AMDGPU_GMC9_FAULT_SOURCE_DATA_READ", flag(ih::fault::READ)),
            same(
                "AMDGPU_GMC9_FAULT_SOURCE_DATA_WRITE",
                flag(ih::fault::WRITE),
            ),
            same("AMDGPU_GMC9_FAULT_SOURCE_DATA_EXE", flag(ih::fault::EXE)),
        ])
        .check();
}

#[test]
fn nodes() {
    let irq = amd_text("amdgpu/amdgpu_irq.h");
    let aid = |n: u32| ih::node::PER_AID * n + ih::node::AID;
    Program::new()
        .text(&block(&irq, "enum interrupt_node_id_per_aid {", "};"))
        .facts([
            same("AID0_NODEID", aid(0)),
            same("XCD0_NODEID", aid(0) + ih::node::XCD0),
            same("XCD1_NODEID", aid(0) + ih::node::XCD1),
            same("AID1_NODEID", aid(1)),
            same("XCD2_NODEID", aid(1) + ih::node::XCD0),
            same("AID3_NODEID", aid(3)),
            same("XCD7_NODEID", aid(3) + ih::node::XCD1),
        ])
        .check();
}

#[test]
fn doorbells() {
    use doorbell::layout1 as l;
    let header = amd_text("amdgpu/amdgpu_doorbell.h");
    let list = [
        ("KIQ_START", l::KIQ_START),
        ("HIQ", l::HIQ),
        ("DIQ", l::DIQ),
        ("MEC_RING_START", l::MEC_RING_START),
        ("MEC_RING_END", l::MEC_RING_END),
        ("USERQUEUE_START", l::USERQUEUE_START),
        ("USERQUEUE_END", l::USERQUEUE_END),
        ("XCC_RANGE", l::XCC_RANGE),
        ("sDMA_ENGINE_START", l::SDMA_ENGINE_START),
        ("sDMA_ENGINE_END", l::SDMA_ENGINE_END),
        ("IH", l::IH),
        ("VCN_START", l::VCN_START),
        ("VCN_END", l::VCN_END),
        ("FIRST_NON_CP", l::FIRST_NON_CP),
        ("LAST_NON_CP", l::LAST_NON_CP),
        ("MAX_ASSIGNMENT", l::MAX_ASSIGNMENT),
        ("INVALID", l::INVALID),
    ];
    let text = block(&header, "enum AMDGPU_DOORBELL_ASSIGNMENT_LAYOUT1", "};");
    for name in rkfd_abi_oracle::csource::enumerators(&text) {
        let ours = list
            .iter()
            .any(|(n, _)| name == format!("AMDGPU_DOORBELL_LAYOUT1_{n}"));
        assert!(ours, "{name} is not in rkfd_abi");
    }
    let wanted = |n: &str| {
        n == "KFD_MAX_NUM_OF_QUEUES_PER_PROCESS" || n == "KFD_QUEUE_DOORBELL_MIRROR_OFFSET"
    };
    let vanjaram = amd_text("amdgpu/aqua_vanjaram.c");
    let range = format!(
        "sdma_doorbell_range = {};",
        l::SDMA_ENGINE_STRIDE * doorbell::DWORDS
    );
    assert!(vanjaram.contains(&range), "sdma_doorbell_range");
    Program::new()
        .text(&text)
        .text(&defines(&amd_text("amdkfd/kfd_priv.h"), wanted))
        .facts(list.map(|(name, ours)| same(&format!("AMDGPU_DOORBELL_LAYOUT1_{name}"), ours)))
        .facts([
            same("KFD_MAX_NUM_OF_QUEUES_PER_PROCESS", doorbell::PER_PROCESS),
            same("KFD_QUEUE_DOORBELL_MIRROR_OFFSET", doorbell::MIRROR),
        ])
        .check();
}

#[test]
fn doorbells_of_gfx12() {
    use doorbell::navi10 as n;
    let list = [
        ("_DOORBELL_KIQ", n::KIQ),
        ("_DOORBELL_HIQ", n::HIQ),
        ("_DOORBELL_DIQ", n::DIQ),
        ("_DOORBELL_MEC_RING0", n::MEC_RING0),
        ("_DOORBELL_MEC_RING7", n::MEC_RING7),
        ("_DOORBELL_MES_RING0", n::MES_RING0),
        ("_DOORBELL_MES_RING1", n::MES_RING1),
        ("_DOORBELL_USERQUEUE_START", n::USERQUEUE_START),
        ("_DOORBELL_USERQUEUE_END", n::USERQUEUE_END),
        ("_DOORBELL_GFX_RING0", n::GFX_RING0),
        ("_DOORBELL_GFX_RING1", n::GFX_RING1),
        ("_DOORBELL_GFX_USERQUEUE_START", n::GFX_USERQUEUE_START),
        ("_DOORBELL_GFX_USERQUEUE_END", n::GFX_USERQUEUE_END),
        ("_DOORBELL_sDMA_ENGINE0", n::SDMA_ENGINE0),
        ("_DOORBELL_sDMA_ENGINE1", n::SDMA_ENGINE1),
        ("_DOORBELL_IH", n::IH),
        ("_DOORBELL64_VCN0_1", n::VCN0_1),
        ("_DOORBELL64_VCNe_f", n::VCNE_F),
        ("_DOORBELL64_VPE", n::VPE),
        ("_DOORBELL64_FIRST_NON_CP", n::FIRST_NON_CP),
        ("_DOORBELL64_LAST_NON_CP", n::LAST_NON_CP),
        ("_DOORBELL_MAX_ASSIGNMENT", n::MAX_ASSIGNMENT),
        ("_DOORBELL_INVALID", n::INVALID),
    ];
    assert_eq!(n::SDMA_ENGINE1 - n::SDMA_ENGINE0, n::SDMA_ENGINE_STRIDE);
    let range = format!(
        "sdma_doorbell_range = {};",
        n::SDMA_ENGINE_STRIDE * doorbell::DWORDS
    );
    assert!(amd_text("amdgpu/soc24.c").contains(&range), "{range}");
    Program::new()
        .text(&block(
            &amd_text("amdgpu/amdgpu_doorbell.h"),
            "enum AMDGPU_NAVI10_DOORBELL_ASSIGNMENT",
            "};",
        ))
        .text(&block(
            &amd_text("amdgpu/amdgpu_mes.h"),
            "enum amdgpu_mes_priority_level",
            "};",
        ))
        .facts(list.map(|(name, ours)| same(&format!("AMDGPU_NAVI10{name}"), ours)))
        .facts([same("AMDGPU_MES_PRIORITY_NUM_LEVELS", doorbell::AGGREGATED)])
        .check();
}

#[test]
fn early_addresses() {
    let wanted = |n: &str| {
        n.starts_with("mmRCC")
            || n.starts_with("mmMP0")
            || n.starts_with("mmMM_")
            || n.starts_with("mmDRIVER")
    };
    let uapi = kernel_source().join("include/uapi/linux/kfd_ioctl.h");
    let uapi = std::fs::read_to_string(&uapi).unwrap_or_else(|e| panic!("{uapi:?}: {e}"));
    let aqua = amd_text("amdgpu/gfx_v9_4_3.c");
    Program::new()
        .text("#define PAGE_SIZE 4096")
        .text(&defines(&amd_text("amdgpu/nbif_v6_3_1.c"), |n| {
            n == "MMIO_REG_HOLE_OFFSET"
        }))
        .facts([same("MMIO_REG_HOLE_OFFSET", mmio::REMAP_OFFSET_NBIF_6_3_1)])
        .check();
    Program::new()
        .text(&defines(&amd_text("amdgpu/amdgpu_discovery.c"), wanted))
        .text(&defines(&amd_text("amdgpu/nbio_v7_9.c"), |n| {
            n == "MMIO_REG_HOLE_OFFSET"
        }))
        .text(&defines(&amd_text("amdgpu/amdgpu_virt.h"), |n| {
            n == "mmRCC_IOV_FUNC_IDENTIFIER"
        }))
        .text(&block(&uapi, "enum kfd_mmio_remap {", "};"))
        .text(&defines(&aqua, |n| n.starts_with("XCC_REG_RANGE")))
        .facts([
            same("mmRCC_CONFIG_MEMSIZE", mmio::RCC_CONFIG_MEMSIZE),
            same("mmMP0_SMN_C2PMSG_33", mmio::MP0_C2PMSG_33),
            same("mmMM_INDEX", mmio::MM_INDEX),
            same("mmMM_INDEX_HI", mmio::MM_INDEX_HI),
            same("mmMM_DATA", mmio::MM_DATA),
            same("mmDRIVER_SCRATCH_0", mmio::DRIVER_SCRATCH[0]),
            same("mmDRIVER_SCRATCH_1", mmio::DRIVER_SCRATCH[1]),
            same("mmDRIVER_SCRATCH_2", mmio::DRIVER_SCRATCH[2]),
            same("mmRCC_IOV_FUNC_IDENTIFIER", mmio::RCC_IOV_FUNC_IDENTIFIER),
            same("MMIO_REG_HOLE_OFFSET", mmio::REMAP_OFFSET),
            same(
                "KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL",
                mmio::REMAP_HDP_MEM_FLUSH_CNTL,
            ),
            same(
                "KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL",
                mmio::REMAP_HDP_REG_FLUSH_CNTL,
            ),
            same("XCC_REG_RANGE_0_LOW", regs::XCC_REG_WINDOW_LOW.start),
            same("XCC_REG_RANGE_0_HIGH", regs::XCC_REG_WINDOW_LOW.end),
            same("XCC_REG_RANGE_1_LOW", regs::XCC_REG_WINDOW_HIGH.start),
            same("XCC_REG_RANGE_1_HIGH", regs::XCC_REG_WINDOW_HIGH.end),
        ])
        .check();
}

#[test]
fn cp_ring_id_matches_driver_decode() {
    let text = amd_text("amdgpu/gfx_v9_4_3.c");
    let isr = block(&text, "static int gfx_v9_4_3_eop_irq(", "}");
    let expression = |variable: &str| {
        let from = isr
            .find(&format!("{variable} = (entry->ring_id"))
            .expect(variable);
        let line = isr[from..].split(';').next().expect("statement");
        line.split_once("= ").expect("assignment").1.to_string()
    };
    let mut program = Program::new().text("struct { unsigned ring_id; } e, *entry = &e;");
    for (name, field) in [
        ("me_id", ih::cp_ring::ME),
        ("pipe_id", ih::cp_ring::PIPE),
        ("queue_id", ih::cp_ring::QUEUE),
    ] {
        let Field { mask, .. } = field;
        program = program.block(
            name,
            (u64::from(mask) << 32) | u64::from(field.max()),
            &format!(
                "for (int bit = 0; bit < 8; bit++) {{ e.ring_id = 1u << bit; if ({0}) v |= (uint64_t)e.ring_id << 32; }} \
                 e.ring_id = 0xff; v |= {0};",
                expression(name)
            ),
        );
    }
    program.check();
}
