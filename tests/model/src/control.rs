// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The control socket: changes knobs and queries state at run time.
//!
//! One command per line, one line of reply: `set NAME VALUE`, `get NAME`, `hits NAME`,
//! `stats`, `knobs`, `trace DETAIL on|off`, `mark TEXT` (an event in the log), `walk gfx|mm VMID
//! ADDRESS` (the page-table entries on the walk for an address).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use crate::engines::gmc::Hub;
use crate::event;
use crate::gpu::Gpu;
use crate::knobs::Knobs;
use crate::trace::Detail;

/// Serves the control socket at `path`, on its own threads, for the life of the process.
pub fn serve(path: &Path, gpu: Arc<Gpu>) -> io::Result<()> {
    if path.exists() && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                let gpu = gpu.clone();
                // If the thread cannot be spawned the connection is closed.
                let _ = std::thread::Builder::new()
                    .name("control-client".into())
                    .spawn(move || serve_client(&stream, &gpu));
            }
        })?;
    Ok(())
}

fn serve_client(stream: &UnixStream, gpu: &Gpu) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let mut out = stream;
        if writeln!(out, "{}", reply(&line, gpu)).is_err() {
            return;
        }
    }
}

/// Executes one command and returns the reply.
pub fn reply(line: &str, gpu: &Gpu) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", name, value] => match parse(value) {
            Some(value) if gpu.set_knob(name, value) => {
                event!(gpu.trace, "control", "set", "{name}={value}");
                "ok".into()
            }
            Some(_) => format!("error: no knob {name}"),
            None => format!("error: {value} is not a number"),
        },
        ["get", name] => match gpu.knobs.get(name) {
            Some(value) => value.to_string(),
            None => format!("error: no knob {name}"),
        },
        ["hits", name] => match gpu.knobs.hits(name) {
            Some(count) => count.to_string(),
            None => format!("error: no knob {name}"),
        },
        ["stats"] => gpu.stats(),
        ["knobs"] => {
            let names: Vec<&str> = Knobs::LIST.iter().map(|(name, _)| *name).collect();
            names.join(" ")
        }
        ["trace", name, on @ ("on" | "off")] => match Detail::by_name(name) {
            Some(detail) => {
                gpu.trace.set(detail, on == "on");
                "ok".into()
            }
            None => format!("error: no detail {name}"),
        },
        ["mark", ..] => {
            event!(gpu.trace, "control", "mark", "{}", words[1..].join(" "));
            "ok".into()
        }
        ["walk", hub, vmid, va] => match (hub_of(hub, gpu), vmid.parse(), parse(va)) {
            (Some(hub), Ok(vmid @ 0..16u8), Some(va)) => gpu.gmc.describe(hub, vmid, va),
            _ => "error: walk gfx|mm[INSTANCE] VMID ADDRESS".into(),
        },
        _ => "error: commands are: set NAME VALUE, get NAME, hits NAME, stats, knobs, \
              trace DETAIL on|off, mark TEXT, walk gfx|mm[INSTANCE] VMID ADDRESS"
            .into(),
    }
}

/// Parses a hub: `gfx` or `mm`, and the instance unless it is 0.
fn hub_of(text: &str, gpu: &Gpu) -> Option<Hub> {
    let (is_gfx, n) = match text.strip_prefix("gfx") {
        Some(n) => (true, n),
        None => (false, text.strip_prefix("mm")?),
    };
    let n = if n.is_empty() { 0 } else { n.parse().ok()? };
    let hub = if is_gfx { Hub::Gfx(n) } else { Hub::Mm(n) };
    let (ip, _) = hub.block();
    gpu.chip.base(ip, n, 0).map(|_| hub)
}

/// Parses a number, decimal or with 0x.
pub fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chips::mi300x;
    use crate::gpu::{Boot, Options};
    use crate::log::Strict;
    use crate::trace::Trace;

    #[test]
    fn trace_details_and_walks() {
        let gpu = Gpu::new(Options {
            chip: &mi300x::ONE_XCC,
            boot: Boot::Warm,
            vram: 64 << 20,
            hive_node: None,
            vbios: None,
            firmware_memory: None,
            bad_pages: Vec::new(),
            product: None,
            strict: Arc::new(Strict::quiet()),
            trace: Arc::new(Trace::to_writer(Box::new(std::io::sink()))),
            knobs: Arc::default(),
            adversary: None,
            cached_memory: false,
        })
        .unwrap();
        for (name, detail) in Detail::ALL {
            assert_eq!(reply(&format!("trace {name} on"), &gpu), "ok");
            assert!(gpu.trace.detail_enabled(detail));
            assert_eq!(reply(&format!("trace {name} off"), &gpu), "ok");
            assert!(!gpu.trace.detail_enabled(detail));
        }
        assert!(reply("trace registers perhaps", &gpu).starts_with("error"));
        assert!(reply("trace all on", &gpu).starts_with("error"));
        assert_eq!(reply("mark one two", &gpu), "ok");
        assert!(reply("walk gfx 3 0x1000", &gpu).contains("ContextDisabled"));
        assert!(reply("walk mm0 3 0x1000", &gpu).contains("ContextDisabled"));
        for wrong in [
            "gfx 16 0x1000",
            "gfx1 3 0x1000",
            "gfxx 3 0x1000",
            "hub 3 0x1000",
        ] {
            assert!(reply(&format!("walk {wrong}"), &gpu).starts_with("error"));
        }
        // A describing walk is not an access: no STRICT line.
        assert_eq!(gpu.strict.unexpected(), 0);
    }
}
