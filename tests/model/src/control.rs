// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The control socket: a person or a test turns knobs while the card runs.
//!
//! One command per line, one line of answer: `set NAME VALUE`, `get NAME`, `stats`, `knobs`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use crate::event;
use crate::gpu::Gpu;
use crate::knobs::Knobs;

/// Serves the control socket at `path` on threads of its own, as long as the process lives.
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
                // A client that cannot be served just sees its connection close.
                let _ = std::thread::Builder::new()
                    .name("control-client".into())
                    .spawn(move || talk(&stream, &gpu));
            }
        })?;
    Ok(())
}

fn talk(stream: &UnixStream, gpu: &Gpu) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let mut out = stream;
        if writeln!(out, "{}", answer(&line, gpu)).is_err() {
            return;
        }
    }
}

/// The answer to one command.
pub fn answer(line: &str, gpu: &Gpu) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["set", name, value] => match parse(value) {
            Some(value) if gpu.knobs.set(name, value) => {
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
        ["stats"] => gpu.stats(),
        ["knobs"] => {
            let names: Vec<&str> = Knobs::LIST.iter().map(|(name, _)| *name).collect();
            names.join(" ")
        }
        _ => "error: commands are: set NAME VALUE, get NAME, stats, knobs".into(),
    }
}

/// A number, decimal or with 0x.
pub fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
