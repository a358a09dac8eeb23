// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The event log: one line per event, `t_ns layer event key=value...`.
//!
//! Times are nanoseconds of the host's monotonic clock since the model started. Without a file an
//! event costs nothing: [`event!`](crate::event) formats lazily.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Bytes of the log per write: programs cause tens of thousands of events per second.
const BUFFER: usize = 64 << 10;

/// Optional, verbose parts of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Every register access.
    Registers,
    /// Every page-table walk, with its entries.
    Walks,
    /// Every loaded MQD, word by word.
    Mqds,
}

impl Detail {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("registers", Self::Registers),
        ("walks", Self::Walks),
        ("mqds", Self::Mqds),
    ];

    /// Returns the detail called `name`.
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
    /// Returns a disabled log.
    pub fn off() -> Self {
        Self {
            start: Instant::now(),
            on: false,
            details: Default::default(),
            out: Mutex::new(None),
        }
    }

    /// Returns a log in `path`, replaced if it exists. Lines are in the file after
    /// [`Trace::flush`], most of them before.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER, File::create(path)?);
        Ok(Self::to_writer(Box::new(file)))
    }

    /// Returns a log in a writer.
    pub fn to_writer(out: Box<dyn Write + Send>) -> Self {
        Self {
            start: Instant::now(),
            on: true,
            details: Default::default(),
            out: Mutex::new(Some(out)),
        }
    }

    /// Enables or disables a detail.
    pub fn set(&self, detail: Detail, on: bool) {
        self.details[detail as usize].store(on, Ordering::Relaxed);
    }

    /// Returns whether the log is enabled.
    #[inline]
    pub fn enabled(&self) -> bool {
        self.on
    }

    /// Returns whether a detail is enabled.
    #[inline]
    pub fn detail_enabled(&self, detail: Detail) -> bool {
        self.on && self.details[detail as usize].load(Ordering::Relaxed)
    }

    /// Returns nanoseconds since the model started.
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
            // A full disk must not stop the guest; the log is truncated.
            let _ = writeln!(out, "{now} {layer} {event} {rest}");
        }
    }

    /// Flushes the log to the file.
    pub fn flush(&self) {
        let mut out = self.out.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(out) = out.as_mut() {
            let _ = out.flush();
        }
    }

    /// Flushes the log unless it is in use, as it may be by the caller, after a panic.
    pub fn try_flush(&self) {
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
