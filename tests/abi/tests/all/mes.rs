// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MES: opcodes, error word and the fields of all frames.

use std::collections::BTreeSet;

use rkfd_abi::bits::DwField;
use rkfd_abi::mes::{self, *};
use rkfd_abi_oracle::csource::members;
use rkfd_abi_oracle::{amd_text, fact, same, Fact, Program};

const HEADER: &str = "include/mes_v12_api_def.h";

fn program() -> Program {
    Program::new()
        .text("typedef uint64_t uint64;")
        .include(HEADER)
}

fn named(prefix: &str, list: &[(&str, u8)]) -> Vec<Fact> {
    list.iter()
        .map(|(name, value)| same(&format!("{prefix}{name}"), *value))
        .collect()
}

#[test]
fn numbers() {
    let levels = fact("levels", PRIORITY_LEVELS, "AMD_PRIORITY_NUM_LEVELS");
    program()
        .facts(named("MES_SCH_API_", op::ALL))
        .facts(named("MESAPI_MISC__", misc_op::ALL))
        .facts(named("MES_QUEUE_TYPE_", queue_type::ALL))
        .facts(named("AMD_PRIORITY_LEVEL_", priority::ALL))
        .facts(named("MES_ERROR_", error_category::ALL))
        .facts(named("MES_API_QUERY_MES__", query_op::ALL))
        .facts(named("WRM_OPERATION__", wait_op::ALL))
        .facts([
            levels,
            same("MES_API_VERSION", API_VERSION),
            same("API_FRAME_SIZE_IN_DWORDS", FRAME_DWORDS),
            same("MES_API_TYPE_SCHEDULER", TYPE_SCHEDULER),
            same("MAX_COMPUTE_PIPES", COMPUTE_PIPES),
            same("MAX_SDMA_PIPES", SDMA_PIPES),
            same("MAX_GFX_PIPES", GFX_PIPES),
            same("VM_HUB_TYPE_GC", HUB_GC),
            same("VM_HUB_TYPE_MM", HUB_MM),
            fact("misc ops", misc_op::ALL.len(), "MESAPI_MISC__MAX"),
            fact("query ops", query_op::ALL.len(), "MES_API_QUERY_MES__MAX"),
            fact("wait ops", wait_op::ALL.len(), "WRM_OPERATION__MAX"),
        ])
        .check();
}

#[test]
fn header_and_error_word() {
    let set =
        |field: &str| format!("union MES_API_HEADER h; h.u32All = 0; h.{field} = ~0; v = h.u32All");
    let error = ErrorWord {
        code: 0x5a,
        opcode: op::MISC,
        misc: misc_op::WAIT_REG_MEM,
        category: error_category::API,
    };
    let ours = header(op::REMOVE_QUEUE);
    program()
        .block("type", HEADER_TYPE.mask.into(), &set("type"))
        .block("opcode", HEADER_OPCODE.mask.into(), &set("opcode"))
        .block("dwsize", HEADER_DWSIZE.mask.into(), &set("dwsize"))
        .block("reserved", HEADER_RESERVED.mask.into(), &set("reserved"))
        .block(
            "header",
            ours.into(),
            "union MES_API_HEADER h; h.u32All = 0; h.type = MES_API_TYPE_SCHEDULER; \
             h.opcode = MES_SCH_API_REMOVE_QUEUE; h.dwsize = API_FRAME_SIZE_IN_DWORDS; v = h.u32All",
        )
        .facts([
            fact("code", ERROR_CODE.shift, "0"),
            same("MES_SCH_ERROR_CODE_HEADER_SHIFT_12", ERROR_OPCODE.shift),
            same("MES_SCH_ERROR_CODE_MISC_OP_SHIFT_12", ERROR_MISC.shift),
            same("MES_ERROR_CATEGORY_SHIFT_12", ERROR_CATEGORY.shift),
            same("MES_API_STATUS_ERROR_SHIFT_12", ERROR_FLAG.shift),
            fact(
                "error",
                error.encode(),
                "MES_ERR_CODE(0x5au, (uint32_t)MES_SCH_API_MISC, (uint32_t)MESAPI_MISC__WAIT_REG_MEM, (uint32_t)MES_ERROR_API)",
            ),
        ])
        .check();
}

#[test]
fn driver_side() {
    let wanted = |n: &str| {
        n.starts_with("AMDGPU_MES_")
            && (n.ends_with("_MASK") || n.ends_with("_SIZE") || n.ends_with("_OFFSET"))
    };
    Program::new()
        .text(&rkfd_abi_oracle::csource::defines(
            &amd_text("amdgpu/amdgpu_mes.h"),
            wanted,
        ))
        .facts([
            same("AMDGPU_MES_VERSION_MASK", VERSION.mask),
            same("AMDGPU_MES_API_VERSION_MASK", VERSION_API.mask),
            same("AMDGPU_MES_FEAT_VERSION_MASK", VERSION_FEATURE.mask),
            same("AMDGPU_MES_PROC_CTX_SIZE", PROCESS_CONTEXT_SIZE),
            same("AMDGPU_MES_GANG_CTX_SIZE", GANG_CONTEXT_SIZE),
            same("AMDGPU_MES_INVALID_DB_OFFSET", NO_DOORBELL),
        ])
        .check();
}

/// Returns the header's text, converted to the layout that `members` parses.
fn text() -> String {
    let mut text = amd_text(HEADER)
        .replace("union MESAPI", "struct MESAPI")
        .replace("] *", "]");
    for (name, value) in [
        ("API_FRAME_SIZE_IN_DWORDS", FRAME_DWORDS),
        ("MAX_COMPUTE_PIPES", COMPUTE_PIPES),
        ("MAX_GFX_PIPES", GFX_PIPES),
        ("MAX_SDMA_PIPES", SDMA_PIPES),
        ("AMD_PRIORITY_NUM_LEVELS", PRIORITY_LEVELS),
        ("MES_MAX_HWIP_SEGMENT", 8),
        ("QUERY_MES_MAX_SIZE_IN_DWORDS", 20),
        ("MISC_DATA_MAX_SIZE_IN_DWORDS", 20),
    ] {
        text = text.replace(&format!("[{name}]"), &format!("[{value}]"));
    }
    text
}

/// Aliases of other members, and members of the common frame.
const ALIASES: &[&str] = &[
    "max_dwords_in_api",
    "header",
    "api_status",
    "uint32_all",
    "u32all",
    "u32All",
    "all",
    "data",
    "kfd_queue_size",
    "return_value",
];

/// Compares one frame with its union. `path` returns the C spelling of a field that is not its name
/// in lower case; `others` are members of other uses of the union.
fn frame(union: &str, frame: &mes::Frame, path: &dyn Fn(&str) -> String, others: &[&str]) -> usize {
    let mut program = program();
    let mut ours = BTreeSet::new();
    let mut fill = |name: &str, dw: usize, masks: &[u32]| {
        let path = path(name);
        ours.insert(path.rsplit('.').next().unwrap().to_string());
        // Checksum over the dwords that the member covers: index and mask of each.
        let sum = masks.iter().enumerate().fold(0u64, |sum, (n, mask)| {
            (sum.wrapping_mul(1_000_003) + (dw + n) as u64).wrapping_mul(1_000_003)
                + u64::from(*mask)
        });
        (format!("{union}.{path}"), sum, path)
    };
    let mut blocks = Vec::new();
    // Not in the header: `debugger_flush`.
    let named = |f: &&DwField| f.name != "PROCESS_CTX_FLUSH";
    for f in frame.words.iter().filter(named) {
        blocks.push((fill(f.name, f.dw, &[f.field.mask]), true));
    }
    for f in frame.quads {
        blocks.push((fill(f.name, f.dw, &[!0; 2]), true));
    }
    for f in frame.arrays {
        blocks.push((fill(f.name, f.dw, &vec![!0; f.len]), false));
    }
    blocks.push((
        fill("API_STATUS", frame.status, &[!0; STATUS_DWORDS]),
        false,
    ));
    for ((name, sum, path), scalar) in blocks {
        let set = match scalar {
            true => format!("u.{path} = ~0ull"),
            false => format!("memset(&u.{path}, 0xff, sizeof u.{path})"),
        };
        program = program.block(
            &name,
            sum,
            &format!(
                "union {union} u; uint32_t *p = (uint32_t *)&u; memset(&u, 0, sizeof u); {set}; \
                 for (uint64_t n = 0; n < sizeof u / 4; n++) \
                 if (p[n]) v = (v * 1000003 + n) * 1000003 + p[n]"
            ),
        );
    }
    for member in members(&text(), union) {
        let name = member.name.as_str();
        let known = name.starts_with("reserved")
            || ALIASES.contains(&name)
            || others.contains(&name)
            || ours.contains(name);
        assert!(known, "{union}.{} is not in rkfd_abi", member.path);
    }
    program
        .facts([fact(
            format!("size of {union}"),
            FRAME_BYTES,
            format!("sizeof(union {union})"),
        )])
        .check()
}

#[test]
fn frames() {
    let small = |name: &str| name.to_lowercase();
    let plain = [
        ("MESAPI_SET_HW_RESOURCES", set_hw_rsrc::FRAME),
        ("MESAPI_SET_HW_RESOURCES_1", set_hw_rsrc_1::FRAME),
        ("MESAPI__ADD_QUEUE", add_queue::FRAME),
        ("MESAPI__REMOVE_QUEUE", remove_queue::FRAME),
        ("MESAPI__SUSPEND", suspend::FRAME),
        ("MESAPI__RESUME", resume::FRAME),
        ("MESAPI__RESET", reset::FRAME),
        (
            "MESAPI__UPDATE_ROOT_PAGE_TABLE",
            update_root_page_table::FRAME,
        ),
    ];
    for (union, f) in plain {
        assert!(frame(union, &f, &small, &[]) >= 4);
    }
    let query = |name: &str| match name {
        "PROC_CTX_ARRAY_SIZE_ADDR" | "GANG_CTX_ARRAY_SIZE_ADDR" => {
            format!("ctx_array_size.{}", name.to_lowercase())
        }
        _ => name.to_lowercase(),
    };
    let f = query_scheduler_status::FRAME;
    frame(
        "MESAPI__QUERY_MES_STATUS",
        &f,
        &query,
        &["ctx_array_size", "healthy_check"],
    );
    let inv = |name: &str| match name {
        "API_STATUS" => name.to_lowercase(),
        _ => format!("invalidate_tlbs.{}", name.to_lowercase()),
    };
    frame(
        "MESAPI__INV_TLBS",
        &inv_tlbs::FRAME,
        &inv,
        &["invalidate_tlbs"],
    );
    // Members of the struct as well.
    for member in members(&amd_text(HEADER), "INV_TLBS") {
        let field = member.name.to_uppercase();
        let f = inv_tlbs::FRAME;
        let known = f.words.iter().any(|w| w.name == field)
            || f.quads.iter().any(|q| q.name == field)
            || field == "RESERVED";
        assert!(known, "INV_TLBS.{} is not in rkfd_abi", member.name);
    }
}

#[test]
fn misc_frames() {
    let all = [
        "write_reg",
        "inv_gart",
        "query_status",
        "read_reg",
        "wait_reg_mem",
        "set_shader_debugger",
        "queue_sch_level",
        "change_config",
    ];
    for f in FRAMES.iter().filter(|f| f.misc.is_some()) {
        let part = f.name.to_lowercase();
        let path = |name: &str| match name {
            "MISC_OPCODE" => "opcode".to_string(),
            "DOORBELL_OFFSET" | "OS_FENCE" | "TIMESTAMP" | "API_STATUS" | "QUEUE_SCH_LEVEL" => {
                name.to_lowercase()
            }
            "RRMT_OPT" | "RRMT_OPT1" | "RRMT_OPT2" => format!("{part}.{}.all", name.to_lowercase()),
            "READ64BITS" => format!("{part}.option.bits.read64Bits"),
            "SINGLE_MEMOP" | "SINGLE_ALU_OP" | "LDS_OOR_REPORTING" => {
                format!("{part}.flags.{}", name.to_lowercase())
            }
            "CONFIG_OPCODE" => format!("{part}.opcode"),
            "LIMIT_SINGLE_PROCESS" | "ENABLE_HWS_LOGGING_BUFFER" => {
                format!("{part}.option.bits.{}", name.to_lowercase())
            }
            "TDR_LEVEL" | "TDR_DELAY" => format!("{part}.tdr_config.{}", name.to_lowercase()),
            _ => format!("{part}.{}", name.to_lowercase()),
        };
        frame("MESAPI__MISC", f, &path, &all);
    }
}

#[test]
fn hung_queue_words() {
    // The header describes the word in a comment only: match the text.
    let text = amd_text(HEADER);
    let text: String = text.split_whitespace().collect();
    for (name, field) in [
        ("queue_type", HUNG_QUEUE_TYPE),
        ("pipe_index", HUNG_PIPE),
        ("hqd_index", HUNG_HQD),
    ] {
        let line = format!("uint32{name}:{};", field.width());
        assert!(text.contains(&line), "{line}");
    }
    assert_eq!(HUNG_PIPE.shift, 3);
    assert_eq!(HUNG_HQD.shift, 7);
}

#[test]
fn debugger_flush() {
    // The flags that the driver writes to the frame.
    let text: String = amd_text("amdgpu/amdgpu_mes.h").split_whitespace().collect();
    let flags = "uint32_tsingle_memop:1;uint32_tsingle_alu_op:1;uint32_treserved:29;\
                 uint32_tprocess_ctx_flush:1;";
    assert!(text.contains(flags));
    assert_eq!(
        misc_set_shader_debugger::PROCESS_CTX_FLUSH.field.mask,
        1 << 31
    );
}
