// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The strict log: every violation by the guest, one line each.
//!
//! A line starts with `STRICT:` and contains the unit, the error, the address and the value. The
//! exit code is nonzero after a line that no `--expect` pattern matches.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

/// Number of times that an identical line is printed before it is only counted.
const REPEAT_LIMIT: u64 = 3;

/// Number of distinct lines; further ones are only counted.
const LINE_LIMIT: usize = 2000;

/// Collects violations.
#[derive(Default)]
pub struct Strict {
    expected: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashMap<String, u64>,
    unexpected: u64,
    expected_count: u64,
    quiet: bool,
    last: Vec<String>,
}

impl Strict {
    /// Returns a log in which lines that contain one of `expected` do not fail the run.
    pub fn new(expected: Vec<String>) -> Self {
        Self {
            expected,
            state: Mutex::default(),
        }
    }

    /// Returns a log that prints nothing, for tests; lines are still counted and kept.
    pub fn quiet() -> Self {
        let log = Self::default();
        log.lock().quiet = true;
        log
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Records a violation detected by `unit`.
    pub fn report(&self, unit: &str, what: fmt::Arguments<'_>) {
        let line = format!("{unit}: {what}");
        let expected = self.expected.iter().any(|p| line.contains(p.as_str()));
        let mut state = self.lock();
        if expected {
            state.expected_count += 1;
        } else {
            state.unexpected += 1;
        }
        if state.seen.len() >= LINE_LIMIT && !state.seen.contains_key(&line) {
            return;
        }
        let count = {
            let count = state.seen.entry(line.clone()).or_insert(0);
            *count += 1;
            *count
        };
        if state.last.len() < 64 {
            state.last.push(line.clone());
        }
        if state.quiet || count > REPEAT_LIMIT {
            return;
        }
        let tail = if count == REPEAT_LIMIT {
            " (repetitions are only counted from here on)"
        } else {
            ""
        };
        let mark = if expected { " (expected)" } else { "" };
        eprintln!("STRICT: {line}{mark}{tail}");
    }

    /// Returns the number of violations that match no `--expect`.
    pub fn unexpected(&self) -> u64 {
        self.lock().unexpected
    }

    /// Returns the number of violations that match an `--expect`.
    pub fn expected_count(&self) -> u64 {
        self.lock().expected_count
    }

    /// Returns the first violations, oldest first (at most 64), for tests.
    pub fn lines(&self) -> Vec<String> {
        self.lock().last.clone()
    }
}

/// Reports a violation: `strict!(log, "unit", "format", args..)`.
#[macro_export]
macro_rules! strict {
    ($log:expr, $unit:expr, $($arg:tt)*) => {
        $log.report($unit, format_args!($($arg)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_only() {
        let log = Strict::quiet();
        for i in 0..2 * LINE_LIMIT {
            strict!(log, "x", "line {i}");
        }
        assert_eq!(log.unexpected(), 2 * LINE_LIMIT as u64);
        assert_eq!(log.lock().seen.len(), LINE_LIMIT);
    }

    #[test]
    fn expected_lines_are_not_violations() {
        let log = Strict::new(vec!["no such register".into()]);
        log.lock().quiet = true;
        strict!(log, "regs", "no such register {:#x}", 4);
        strict!(log, "cp", "bad opcode {:#x}", 0xff);
        assert_eq!((log.unexpected(), log.expected_count()), (1, 1));
        assert_eq!(log.lines()[1], "cp: bad opcode 0xff");
    }
}
