// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tables of the report: cost of calls, memory, bring-up registers.

use std::collections::BTreeMap;
use std::fmt::Write;

use rkfd_abi::regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, sdma_4_4_2 as sdma};

use crate::trace::{Act, Section};
use crate::Run;

fn ratio(a: u64, b: u64) -> String {
    match b {
        0 => "-".into(),
        _ => format!("{:.2}", a as f64 / b as f64),
    }
}

/// Returns the table of guest instructions per call.
pub fn calls(runs: &[Run]) -> String {
    let mut out = String::from(
        "Guest instructions of each call (QEMU -icount, one processor): the median of those of the calling\n\
         thread, and of those elapsed until it returned, including other threads and idle time.\n\n",
    );
    let _ = write!(out, "{:<28}", "");
    for run in runs {
        let _ = write!(
            out,
            " {:>12} {:>12}",
            format!("{} own", run.name),
            "elapsed"
        );
    }
    out += if runs.len() == 2 {
        "  ratio own   elapsed\n"
    } else {
        "\n"
    };
    for call in &runs[0].guest.calls {
        let _ = write!(out, "{:<28}", call.name);
        let mut both = Vec::new();
        for run in runs {
            match run.guest.calls.iter().find(|c| c.name == call.name) {
                Some(c) => {
                    let _ = write!(out, " {:>12} {:>12}", c.own.0, c.elapsed.0);
                    both.push(c);
                }
                None => {
                    let _ = write!(out, " {:>12} {:>12}", "-", "-");
                }
            }
        }
        if let [a, b] = both[..] {
            let own = ratio(a.own.0, b.own.0);
            let elapsed = ratio(a.elapsed.0, b.elapsed.0);
            let _ = write!(out, "  {own:>9} {elapsed:>9}");
        }
        out.push('\n');
    }
    out
}

/// Returns the table of memory in bytes.
pub fn memory(runs: &[Run]) -> String {
    let mut out = String::from("Memory in bytes per object, without allocations of the process itself (noise of a few pages is normal).\n\n");
    let _ = write!(out, "{:<24}", "");
    for run in runs {
        let _ = write!(
            out,
            " {:>12} {:>12} {:>12}",
            format!("{} guest", run.name),
            "VRAM",
            "GTT"
        );
    }
    out.push('\n');
    for (name, _) in &runs[0].guest.memory {
        let _ = write!(out, "{name:<24}");
        for run in runs {
            match run.guest.memory.iter().find(|(n, _)| n == name) {
                Some((_, [guest, vram, gtt])) => {
                    let _ = write!(out, " {guest:>12} {vram:>12} {gtt:>12}");
                }
                None => {
                    let _ = write!(out, " {:>12} {:>12} {:>12}", "-", "-", "-");
                }
            }
        }
        out.push('\n');
    }
    out
}

/// Fields of registers that hold the sizes of rings of the kernel, which each driver chooses. Those
/// of HQDs have offsets for names: CP_HQD_PQ_CONTROL.
const SIZES: &[(&str, u32)] = &[
    (
        "regSDMA_GFX_RB_CNTL",
        sdma::SDMA_GFX_RB_CNTL__RB_SIZE.mask(),
    ),
    (
        "regSDMA0_QUEUE0_RB_CNTL",
        gc12::SDMA0_QUEUE0_RB_CNTL__RB_SIZE.mask(),
    ),
    (
        "regSDMA1_QUEUE0_RB_CNTL",
        gc12::SDMA0_QUEUE0_RB_CNTL__RB_SIZE.mask(),
    ),
    (
        "regCP_HQD_*[0x1256]",
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.mask(),
    ),
    (
        "regCP_HQD_*[0x1fba]",
        gc12::CP_HQD_PQ_CONTROL__QUEUE_SIZE.mask(),
    ),
];

/// Values written to registers in order, without repetitions, by name and dword address.
pub type Registers<'a> = BTreeMap<(&'a str, u32), Vec<u32>>;

/// Returns the registers that a section writes.
pub fn registers(section: &Section) -> Registers<'_> {
    let mut map = Registers::new();
    for act in &section.acts {
        if let Act::Register(name, value, addr) = act {
            let size = SIZES.iter().find(|(of, _)| of == name);
            let value = value & !size.map_or(0, |(_, mask)| *mask);
            let values = map.entry((name, *addr)).or_default();
            if values.last() != Some(&value) {
                values.push(value);
            }
        }
    }
    map
}

/// Returns the number of accesses of the bring-up.
pub fn bring_up(runs: &[Run]) -> String {
    let mut out = String::new();
    for run in runs {
        let section = &run.trace.bring_up;
        let writes = section
            .acts
            .iter()
            .filter(|act| matches!(act, Act::Register(..)));
        let _ = writeln!(
            out,
            "{}: {} registers, {} writes, {} reads",
            run.name,
            registers(section).len(),
            writes.count(),
            section.reads
        );
    }
    out
}

/// Returns the table of acts per section, as counts.
pub fn sections(runs: &[Run]) -> String {
    let mut out = String::from("GPU accesses of each step: register writes/reads, doorbells of kernel queues, packets of KIQ and HIQ, packets\nof kernel DMA rings.\n\n");
    let _ = write!(out, "{:<34}", "");
    for run in runs {
        let _ = write!(out, " {:<34}", run.name);
    }
    let mut out = out.trim_end().to_string() + "\n";
    let mut before = String::new();
    for section in &runs[0].trace.sections {
        if section.name.is_empty() {
            continue;
        }
        let mut row = String::new();
        for run in runs {
            let Some(s) = run.trace.section(&section.name) else {
                let _ = write!(row, " {:<34}", "-");
                continue;
            };
            let count = |f: &dyn Fn(&Act) -> bool| s.acts.iter().filter(|a| f(a)).count();
            let text = format!(
                "reg {}/{} db {} pkt {} dma {}",
                count(&|a| matches!(a, Act::Register(..))),
                s.reads,
                count(&|a| matches!(a, Act::Doorbell(..))),
                count(&|a| matches!(a, Act::Packet(..))),
                count(&|a| matches!(a, Act::KernelCopy(..))),
            );
            let _ = write!(row, " {text:<34}");
        }
        // Omit mappings that repeat an earlier row.
        if !section.name.starts_with("map ") || !before.contains(&row) {
            let _ = writeln!(out, "{:<34}{}", section.name.trim(), row.trim_end());
            before = format!("{before}{row}\n");
        }
    }
    out
}
