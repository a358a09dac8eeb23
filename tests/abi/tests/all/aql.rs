// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AQL against the HSA runtime's headers (Debian: libhsa-runtime-dev), and the kernel descriptor
//! against the output of LLVM's assembler.
//!
//! `RKFD_HSA_INCLUDE` is the folder of the headers (default /usr/include/hsa), `RKFD_LLVM_BIN` that
//! of LLVM's programs (default: `PATH`). Tests fail without them.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, process};

use rkfd_abi::aql::{self, header, kernel_descriptor as kd};
use rkfd_abi::bits::Field;
use rkfd_abi_oracle::{fact, same, Fact, Program};

/// Returns a program that includes the HSA headers.
fn hsa() -> Program {
    let dir = env::var("RKFD_HSA_INCLUDE").unwrap_or_else(|_| "/usr/include/hsa".to_string());
    assert!(
        PathBuf::from(&dir).join("amd_hsa_queue.h").is_file(),
        "{dir}: no amd_hsa_queue.h: install libhsa-runtime-dev, or set RKFD_HSA_INCLUDE to the \
         folder with the HSA runtime's headers"
    );
    [
        "hsa.h",
        "hsa_ext_amd.h",
        "amd_hsa_queue.h",
        "amd_hsa_signal.h",
        "amd_hsa_kernel_code.h",
    ]
    .iter()
    .fold(Program::new(), |program, header| {
        program.text(&format!("#include \"{dir}/{header}\""))
    })
}

fn offset(c_struct: &str, member: &str, ours: usize) -> Fact {
    fact(
        format!("{c_struct}.{member}"),
        ours,
        format!("offsetof({c_struct}, {member})"),
    )
}

fn size(c_struct: &str, ours: usize) -> Fact {
    fact(
        format!("sizeof {c_struct}"),
        ours,
        format!("sizeof({c_struct})"),
    )
}

/// Returns facts for `HSA_PACKET_HEADER_X` and its width.
fn header_field(name: &str, field: Field) -> [Fact; 2] {
    let (shift, width) = (
        format!("HSA_PACKET_HEADER_{name}"),
        format!("HSA_PACKET_HEADER_WIDTH_{name}"),
    );
    [same(&shift, field.shift), same(&width, field.width())]
}

#[test]
fn packets() {
    use aql::{agent_dispatch as a, barrier as b, kernel_dispatch as k, vendor as v};
    let (kernel, agent) = (
        "hsa_kernel_dispatch_packet_t",
        "hsa_agent_dispatch_packet_t",
    );
    let (and, value) = ("hsa_barrier_and_packet_t", "hsa_amd_barrier_value_packet_t");
    let mut program = hsa()
        .facts(header_field("TYPE", header::TYPE))
        .facts(header_field("BARRIER", header::BARRIER))
        .facts(header_field(
            "SCACQUIRE_FENCE_SCOPE",
            header::ACQUIRE_FENCE_SCOPE,
        ))
        .facts(header_field(
            "SCRELEASE_FENCE_SCOPE",
            header::RELEASE_FENCE_SCOPE,
        ))
        .facts([
            same(
                "HSA_PACKET_TYPE_VENDOR_SPECIFIC",
                header::TYPE_VENDOR_SPECIFIC,
            ),
            same("HSA_PACKET_TYPE_INVALID", header::TYPE_INVALID),
            same(
                "HSA_PACKET_TYPE_KERNEL_DISPATCH",
                header::TYPE_KERNEL_DISPATCH,
            ),
            same("HSA_PACKET_TYPE_BARRIER_AND", header::TYPE_BARRIER_AND),
            same(
                "HSA_PACKET_TYPE_AGENT_DISPATCH",
                header::TYPE_AGENT_DISPATCH,
            ),
            same("HSA_PACKET_TYPE_BARRIER_OR", header::TYPE_BARRIER_OR),
            same("HSA_FENCE_SCOPE_NONE", header::SCOPE_NONE),
            same("HSA_FENCE_SCOPE_AGENT", header::SCOPE_AGENT),
            same("HSA_FENCE_SCOPE_SYSTEM", header::SCOPE_SYSTEM),
            same(
                "HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS",
                k::SETUP_DIMENSIONS.shift,
            ),
            same(
                "HSA_KERNEL_DISPATCH_PACKET_SETUP_WIDTH_DIMENSIONS",
                k::SETUP_DIMENSIONS.width(),
            ),
            offset(kernel, "setup", k::SETUP),
            offset(kernel, "workgroup_size_x", k::WORKGROUP_SIZE_X),
            offset(kernel, "workgroup_size_y", k::WORKGROUP_SIZE_Y),
            offset(kernel, "workgroup_size_z", k::WORKGROUP_SIZE_Z),
            offset(kernel, "reserved0", k::RESERVED0),
            offset(kernel, "grid_size_x", k::GRID_SIZE_X),
            offset(kernel, "grid_size_y", k::GRID_SIZE_Y),
            offset(kernel, "grid_size_z", k::GRID_SIZE_Z),
            offset(kernel, "private_segment_size", k::PRIVATE_SEGMENT_SIZE),
            offset(kernel, "group_segment_size", k::GROUP_SEGMENT_SIZE),
            offset(kernel, "kernel_object", k::KERNEL_OBJECT),
            offset(kernel, "kernarg_address", k::KERNARG_ADDRESS),
            offset(kernel, "reserved2", k::RESERVED2),
            offset(agent, "type", a::TYPE),
            offset(agent, "reserved0", a::RESERVED0),
            offset(agent, "return_address", a::RETURN_ADDRESS),
            offset(agent, "arg", a::ARG),
            offset(agent, "reserved2", a::RESERVED2),
            offset(and, "reserved0", b::RESERVED0),
            offset(and, "reserved1", b::RESERVED1),
            offset(and, "dep_signal", b::DEP_SIGNAL),
            offset(and, "reserved2", b::RESERVED2),
            offset("hsa_barrier_or_packet_t", "dep_signal", b::DEP_SIGNAL),
            offset(value, "header.AmdFormat", v::FORMAT),
            offset(value, "signal", v::BARRIER_SIGNAL),
            offset(value, "value", v::BARRIER_VALUE),
            offset(value, "mask", v::BARRIER_MASK),
            offset(value, "cond", v::BARRIER_CONDITION),
            same("HSA_AMD_PACKET_TYPE_BARRIER_VALUE", v::FORMAT_BARRIER_VALUE),
        ])
        .block(
            "dependencies",
            b::DEP_SIGNALS as u64,
            "hsa_barrier_and_packet_t p; v = sizeof p.dep_signal / sizeof p.dep_signal[0]",
        );
    for packet in [kernel, agent, and, value, "hsa_barrier_or_packet_t"] {
        program = program.facts([
            offset(packet, "header", aql::HEADER),
            offset(packet, "completion_signal", aql::COMPLETION_SIGNAL),
            size(packet, aql::PACKET_SIZE),
        ]);
    }
    program.check();
}

#[test]
fn queue_and_signal() {
    use aql::{queue as q, signal as s};
    let (queue, signal) = ("amd_queue_t", "amd_signal_t");
    let property =
        |name: &str, field: Field| same(&format!("AMD_QUEUE_PROPERTIES_{name}"), field.mask);
    hsa()
        .facts([
            size(queue, q::SIZE),
            same("AMD_QUEUE_ALIGN_BYTES", q::ALIGN),
            offset(queue, "hsa_queue.type", q::TYPE),
            offset(queue, "hsa_queue.features", q::FEATURES),
            offset(queue, "hsa_queue.base_address", q::BASE_ADDRESS),
            offset(queue, "hsa_queue.doorbell_signal", q::DOORBELL_SIGNAL),
            offset(queue, "hsa_queue.size", q::RING_SIZE),
            offset(queue, "hsa_queue.id", q::ID),
            offset(queue, "caps", q::CAPS),
            offset(queue, "write_dispatch_id", q::WRITE_DISPATCH_ID),
            offset(
                queue,
                "group_segment_aperture_base_hi",
                q::GROUP_SEGMENT_APERTURE_BASE_HI,
            ),
            offset(
                queue,
                "private_segment_aperture_base_hi",
                q::PRIVATE_SEGMENT_APERTURE_BASE_HI,
            ),
            offset(queue, "max_cu_id", q::MAX_CU_ID),
            offset(queue, "max_wave_id", q::MAX_WAVE_ID),
            offset(
                queue,
                "max_legacy_doorbell_dispatch_id_plus_1",
                q::MAX_LEGACY_DOORBELL_DISPATCH_ID_PLUS_1,
            ),
            offset(queue, "legacy_doorbell_lock", q::LEGACY_DOORBELL_LOCK),
            offset(queue, "read_dispatch_id", q::READ_DISPATCH_ID),
            offset(
                queue,
                "read_dispatch_id_field_base_byte_offset",
                q::READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET,
            ),
            offset(queue, "compute_tmpring_size", q::COMPUTE_TMPRING_SIZE),
            offset(
                queue,
                "scratch_resource_descriptor",
                q::SCRATCH_RESOURCE_DESCRIPTOR,
            ),
            offset(
                queue,
                "scratch_backing_memory_location",
                q::SCRATCH_BACKING_MEMORY_LOCATION,
            ),
            offset(
                queue,
                "scratch_backing_memory_byte_size",
                q::SCRATCH_BACKING_MEMORY_BYTE_SIZE,
            ),
            offset(
                queue,
                "scratch_wave64_lane_byte_size",
                q::SCRATCH_WAVE64_LANE_BYTE_SIZE,
            ),
            offset(queue, "queue_properties", q::QUEUE_PROPERTIES),
            offset(queue, "scratch_last_used_index", q::SCRATCH_LAST_USED_INDEX),
            offset(queue, "queue_inactive_signal", q::QUEUE_INACTIVE_SIGNAL),
            offset(
                queue,
                "alt_scratch_last_used_index",
                q::ALT_SCRATCH_LAST_USED_INDEX,
            ),
            offset(
                queue,
                "alt_scratch_backing_memory_location",
                q::ALT_SCRATCH_BACKING_MEMORY_LOCATION,
            ),
            offset(
                queue,
                "alt_scratch_backing_memory_byte_size",
                q::ALT_SCRATCH_BACKING_MEMORY_BYTE_SIZE,
            ),
            offset(
                queue,
                "alt_scratch_dispatch_limit_x",
                q::ALT_SCRATCH_DISPATCH_LIMIT_X,
            ),
            offset(
                queue,
                "alt_scratch_dispatch_limit_y",
                q::ALT_SCRATCH_DISPATCH_LIMIT_Y,
            ),
            offset(
                queue,
                "alt_scratch_dispatch_limit_z",
                q::ALT_SCRATCH_DISPATCH_LIMIT_Z,
            ),
            offset(
                queue,
                "alt_scratch_wave64_lane_byte_size",
                q::ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE,
            ),
            offset(
                queue,
                "alt_compute_tmpring_size",
                q::ALT_COMPUTE_TMPRING_SIZE,
            ),
            // Later runtimes split this one: the CP's word is unchanged, the runtime's is bit 1.
            same(
                "AMD_QUEUE_CAPS_ASYNC_RECLAIM",
                q::CAPS_CP_ASYNC_RECLAIM.mask,
            ),
            property("ENABLE_TRAP_HANDLER", q::PROPERTIES_ENABLE_TRAP_HANDLER),
            property("IS_PTR64", q::PROPERTIES_IS_PTR64),
            property(
                "ENABLE_TRAP_HANDLER_DEBUG_SGPRS",
                q::PROPERTIES_ENABLE_TRAP_HANDLER_DEBUG_SGPRS,
            ),
            property("ENABLE_PROFILING", q::PROPERTIES_ENABLE_PROFILING),
            property("USE_SCRATCH_ONCE", q::PROPERTIES_USE_SCRATCH_ONCE),
            size(signal, s::SIZE),
            same("AMD_SIGNAL_ALIGN_BYTES", s::SIZE),
            offset(signal, "kind", s::KIND),
            offset(signal, "value", s::VALUE),
            offset(signal, "event_mailbox_ptr", s::EVENT_MAILBOX_PTR),
            offset(signal, "event_id", s::EVENT_ID),
            offset(signal, "start_ts", s::START_TS),
            offset(signal, "end_ts", s::END_TS),
            offset(signal, "queue_ptr", s::QUEUE_PTR),
            same("AMD_SIGNAL_KIND_INVALID", s::KIND_INVALID as u64),
            same("AMD_SIGNAL_KIND_USER", s::KIND_USER as u64),
            same("AMD_SIGNAL_KIND_DOORBELL", s::KIND_DOORBELL as u64),
            same(
                "AMD_SIGNAL_KIND_LEGACY_DOORBELL",
                s::KIND_LEGACY_DOORBELL as u64,
            ),
        ])
        .check();
}

#[test]
fn code_properties() {
    let property = |name: &str, field: Field| {
        let name = format!("AMD_KERNEL_CODE_PROPERTIES_{name}");
        fact(name.clone(), field.mask, name)
    };
    hsa()
        .facts([
            property(
                "ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER",
                kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER,
            ),
            property("ENABLE_SGPR_DISPATCH_PTR", kd::ENABLE_SGPR_DISPATCH_PTR),
            property("ENABLE_SGPR_QUEUE_PTR", kd::ENABLE_SGPR_QUEUE_PTR),
            property(
                "ENABLE_SGPR_KERNARG_SEGMENT_PTR",
                kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR,
            ),
            property("ENABLE_SGPR_DISPATCH_ID", kd::ENABLE_SGPR_DISPATCH_ID),
            property(
                "ENABLE_SGPR_FLAT_SCRATCH_INIT",
                kd::ENABLE_SGPR_FLAT_SCRATCH_INIT,
            ),
            property(
                "ENABLE_SGPR_PRIVATE_SEGMENT_SIZE",
                kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE,
            ),
        ])
        .check();
}

/// Returns the descriptor that LLVM emits for a kernel with these `.amdhsa_` directives.
fn assemble(target: &str, directives: &str) -> Vec<u8> {
    let unique = format!("rkfd-kd-{}-{:p}", process::id(), &directives);
    let dir = env::temp_dir().join(unique);
    fs::create_dir_all(&dir).expect("temporary folder");
    let vcc = if target.starts_with("gfx9") {
        ".amdhsa_reserve_vcc 0\n"
    } else {
        ""
    };
    let accum = if ["gfx90a", "gfx942"].contains(&target) && !directives.contains("accum_offset") {
        ".amdhsa_accum_offset 4\n"
    } else {
        ""
    };
    let source = format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{target}\"\n.text\nk:\n s_endpgm\n.rodata\n.p2align 6\n\
         .amdhsa_kernel k\n.amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 1\n{vcc}{accum}{directives}\n\
         .end_amdhsa_kernel\n"
    );
    let (s, o, bin) = (dir.join("k.s"), dir.join("k.o"), dir.join("k.bin"));
    fs::write(&s, source).expect("source");
    let tool = |name: &str| match env::var_os("RKFD_LLVM_BIN") {
        Some(folder) => PathBuf::from(folder).join(name),
        None => PathBuf::from(name),
    };
    let run = |command: &mut Command| {
        let what = format!("{command:?}");
        let out = command
            .output()
            .unwrap_or_else(|e| panic!("{what}: {e}; set RKFD_LLVM_BIN"));
        assert!(
            out.status.success(),
            "{what}\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    };
    run(Command::new(tool("llvm-mc"))
        .args(["-triple=amdgcn-amd-amdhsa", "-filetype=obj"])
        .arg(format!("-mcpu={target}"))
        .arg("-o")
        .args([&o, &s]));
    run(Command::new(tool("llvm-objcopy"))
        .args(["-O", "binary", "--only-section=.rodata"])
        .args([&o, &bin]));
    let bytes = fs::read(&bin).expect("section");
    fs::remove_dir_all(&dir).expect("temporary folder");
    assert_eq!(bytes.len(), kd::SIZE, "descriptor");
    bytes
}

/// Returns the bits that differ between two descriptors: byte offset of each word, and mask.
fn changed(a: &[u8], b: &[u8], word: usize) -> Vec<(usize, u64)> {
    (0..kd::SIZE)
        .step_by(word)
        .filter_map(|at| {
            let read = |d: &[u8]| {
                let mut bytes = [0; 8];
                bytes[..word].copy_from_slice(&d[at..at + word]);
                u64::from_le_bytes(bytes)
            };
            let bits = read(a) ^ read(b);
            (bits != 0).then_some((at, bits))
        })
        .collect()
}

#[test]
fn descriptor_sizes() {
    let plain = assemble("gfx942", "");
    for (directive, at) in [
        (
            ".amdhsa_group_segment_fixed_size",
            kd::GROUP_SEGMENT_FIXED_SIZE,
        ),
        (".amdhsa_kernarg_size", kd::KERNARG_SIZE),
    ] {
        let other = assemble("gfx942", &format!("{directive} 0x1230"));
        assert_eq!(changed(&plain, &other, 4), [(at, 0x1230)], "{directive}");
    }
    let other = assemble("gfx942", ".amdhsa_private_segment_fixed_size 0x1230");
    let private = (kd::PRIVATE_SEGMENT_FIXED_SIZE, 0x1230);
    assert!(changed(&plain, &other, 4).contains(&private));
    for (start, end) in kd::RESERVED {
        assert!(plain[start..end].iter().all(|b| *b == 0), "{start}..{end}");
    }
}

#[test]
fn descriptor_registers() {
    use gpu_regs::gc_9_4_3 as gc;
    let plain = assemble("gfx942", "");
    let at = |directive: &str| changed(&plain, &assemble("gfx942", directive), 4);
    let ieee = u64::from(gc::COMPUTE_PGM_RSRC1__IEEE_MODE.mask);
    assert_eq!(at(".amdhsa_ieee_mode 0"), [(kd::COMPUTE_PGM_RSRC1, ieee)]);
    let y = u64::from(gc::COMPUTE_PGM_RSRC2__TGID_Y_EN.mask);
    let id_y = at(".amdhsa_system_sgpr_workgroup_id_y 1");
    assert_eq!(id_y, [(kd::COMPUTE_PGM_RSRC2, y)]);
    // The offset is in units of 4 registers, minus 1.
    let accum = at(".amdhsa_accum_offset 8");
    assert_eq!(accum, [(kd::COMPUTE_PGM_RSRC3, 1)]);
}

#[test]
fn descriptor_properties() {
    let user = |target: &str, name: &str, field: Field| {
        let plain = assemble(target, "");
        let other = assemble(target, &format!(".amdhsa_{name} 1"));
        let found = changed(&plain, &other, 2);
        let want = (kd::KERNEL_CODE_PROPERTIES, u64::from(field.mask));
        assert!(found.contains(&want), "{name}: {found:x?}");
    };
    user(
        "gfx90a",
        "user_sgpr_private_segment_buffer",
        kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER,
    );
    user(
        "gfx90a",
        "user_sgpr_flat_scratch_init",
        kd::ENABLE_SGPR_FLAT_SCRATCH_INIT,
    );
    user(
        "gfx942",
        "user_sgpr_dispatch_ptr",
        kd::ENABLE_SGPR_DISPATCH_PTR,
    );
    user("gfx942", "user_sgpr_queue_ptr", kd::ENABLE_SGPR_QUEUE_PTR);
    user(
        "gfx942",
        "user_sgpr_kernarg_segment_ptr",
        kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR,
    );
    user(
        "gfx942",
        "user_sgpr_dispatch_id",
        kd::ENABLE_SGPR_DISPATCH_ID,
    );
    user(
        "gfx942",
        "user_sgpr_private_segment_size",
        kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE,
    );
    user("gfx942", "uses_dynamic_stack", kd::USES_DYNAMIC_STACK);
    let wide = assemble("gfx1030", ".amdhsa_wavefront_size32 0");
    let narrow = assemble("gfx1030", ".amdhsa_wavefront_size32 1");
    let want = (
        kd::KERNEL_CODE_PROPERTIES,
        u64::from(kd::ENABLE_WAVEFRONT_SIZE32.mask),
    );
    assert!(changed(&wide, &narrow, 2).contains(&want));
}

#[test]
fn descriptor_preload() {
    let base = ".amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_user_sgpr_count 8\n";
    let plain = assemble("gfx942", base);
    let length = assemble(
        "gfx942",
        &format!("{base}.amdhsa_user_sgpr_kernarg_preload_length 3"),
    );
    let want = (
        kd::KERNARG_PRELOAD,
        u64::from(kd::KERNARG_PRELOAD_LENGTH.put(3)),
    );
    assert!(changed(&plain, &length, 2).contains(&want));
    let both = assemble(
        "gfx942",
        &format!(
            "{base}.amdhsa_user_sgpr_kernarg_preload_length 3\n.amdhsa_user_sgpr_kernarg_preload_offset 5"
        ),
    );
    let want = (
        kd::KERNARG_PRELOAD,
        u64::from(kd::KERNARG_PRELOAD_OFFSET.put(5)),
    );
    assert!(changed(&length, &both, 2).contains(&want));
}
