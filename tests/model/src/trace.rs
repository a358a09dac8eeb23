// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The event log: one line per thing that happened, `t_ns layer event key=value...`.
//!
//! Times are nanoseconds of the host's monotonic clock since the model started. Writing a line
//! costs nothing when no file was asked for: [`event!`](crate::event) formats lazily.

use std::fmt;
use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// What is written only when it was asked for, because there is so much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Every register access.
    Registers,
    /// Every walk of a page table, with the entries that it met.
    Walks,
    /// Every MQD that is loaded, word by word.
    Mqds,
}

impl Detail {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("registers", Self::Registers),
        ("walks", Self::Walks),
        ("mqds", Self::Mqds),
    ];

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, d)| *d)
    }
}

/// Writer of the event log.
pub struct Trace {
    start: Instant,
    on: bool,
    details: [AtomicBool; Detail::ALL.len()],
    out: Mutex<Option<Box<dyn Write + Send>>>,
}

impl Trace {
    /// No log.
    pub fn off() -> Self {
        Self {
            start: Instant::now(),
            on: false,
            details: Default::default(),
            out: Mutex::new(None),
        }
    }

    /// A log in `path`, replaced if it exists.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Ok(Self::to_writer(Box::new(LineWriter::new(File::create(
            path,
        )?))))
    }

    /// A log in any writer.
    pub fn to_writer(out: Box<dyn Write + Send>) -> Self {
        Self {
            start: Instant::now(),
            on: true,
            details: Default::default(),
            out: Mutex::new(Some(out)),
        }
    }

    /// Switches a detail on or off.
    pub fn set(&self, detail: Detail, on: bool) {
        self.details[detail as usize].store(on, Ordering::Relaxed);
    }

    /// Whether anything is written at all.
    #[inline]
    pub fn enabled(&self) -> bool {
        self.on
    }

    /// Whether a detail is written.
    #[inline]
    pub fn wants(&self, detail: Detail) -> bool {
        self.on && self.details[detail as usize].load(Ordering::Relaxed)
    }

    /// Nanoseconds since the model started.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Writes one line. `rest` holds `key=value` pairs.
    pub fn event(&self, layer: &str, event: &str, rest: fmt::Arguments<'_>) {
        if !self.on {
            return;
        }
        let now = self.now();
        let mut out = self.out.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(out) = out.as_mut() {
            // A full disk must not stop the guest; the log is then short, and its reader sees it.
            let _ = writeln!(out, "{now} {layer} {event} {rest}");
        }
    }

    /// Brings everything written so far to the file.
    pub fn flush(&self) {
        // Also called when a thread panicked, perhaps inside `event`: then nothing waits.
        if let Ok(mut out) = self.out.try_lock() {
            if let Some(out) = out.as_mut() {
                let _ = out.flush();
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Logs an event: `event!(trace, "cp", "map_queues", "queue={} doorbell={:#x}", q, d)`.
#[macro_export]
macro_rules! event {
    ($trace:expr, $layer:expr, $event:expr) => {
        if $trace.enabled() { $trace.event($layer, $event, format_args!("")) }
    };
    ($trace:expr, $layer:expr, $event:expr, $($arg:tt)*) => {
        if $trace.enabled() { $trace.event($layer, $event, format_args!($($arg)*)) }
    };
}
