// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The strict log: every violation by the guest, one line each.
//!
//! A line starts with `STRICT:` and contains the unit, the error, the address and the value. The
//! exit code is nonzero after a line that no `--expect` pattern matches, and if a pattern has
//! matched fewer lines than expected.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

/// Number of times that an identical line is printed before it is only counted.
const REPEAT_LIMIT: u64 = 3;

/// Number of distinct lines; further ones are only counted.
const LINE_LIMIT: usize = 2000;

/// Expected lines of a run: a pattern, and the least and the largest number of lines that it
/// matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    pattern: String,
    least: u64,
    most: u64,
}

impl Expectation {
    /// Parses `[COUNT:]PATTERN`. COUNT is `N`, `N-M` or `N-` (no limit); without it, `1-`. PATTERN
    /// is a whole line, in which `*` stands for any text. Returns `None` for a COUNT whose range is
    /// empty.
    pub fn parse(text: &str) -> Option<Self> {
        let count = text.split_once(':').filter(|(count, _)| {
            count.starts_with(|c: char| c.is_ascii_digit())
                && count.bytes().all(|b| b.is_ascii_digit() || b == b'-')
        });
        let (least, most, pattern) = match count {
            None => (1, u64::MAX, text),
            Some((count, pattern)) => {
                let (least, most) = match count.split_once('-') {
                    None => (count.parse().ok()?, count.parse().ok()?),
                    Some((least, "")) => (least.parse().ok()?, u64::MAX),
                    Some((least, most)) => (least.parse().ok()?, most.parse().ok()?),
                };
                (least, most, pattern)
            }
        };
        (most != 0 && least <= most).then(|| Self {
            pattern: pattern.into(),
            least,
            most,
        })
    }

    fn matches(&self, line: &str) -> bool {
        let mut parts = self.pattern.split('*');
        let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// Collects violations.
#[derive(Default)]
pub struct Strict {
    expected: Vec<Expectation>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: HashMap<String, u64>,
    unexpected: u64,
    /// Number of lines that were attributed to each expectation.
    used: Vec<u64>,
    quiet: bool,
    last: Vec<String>,
}

impl Strict {
    /// Returns a log in which the lines of `expected` do not fail the run.
    pub fn new(expected: Vec<Expectation>) -> Self {
        let log = Self {
            expected,
            state: Mutex::default(),
        };
        log.lock().used = vec![0; log.expected.len()];
        log
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
        let mut state = self.lock();
        // The first pattern that matches and has not matched its most.
        let expected = (0..self.expected.len()).find(|&i| {
            let e = &self.expected[i];
            state.used[i] < e.most && e.matches(&line)
        });
        match expected {
            Some(i) => state.used[i] += 1,
            None => state.unexpected += 1,
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
        let mark = if expected.is_some() {
            " (expected)"
        } else {
            ""
        };
        eprintln!("STRICT: {line}{mark}{tail}");
    }

    /// Returns the number of violations that match no `--expect`, or more than one expects.
    pub fn unexpected(&self) -> u64 {
        self.lock().unexpected
    }

    /// Returns the number of violations that match an `--expect`.
    pub fn expected_count(&self) -> u64 {
        self.lock().used.iter().sum()
    }

    /// Returns each pattern with the number of lines it matched.
    pub fn uses(&self) -> Vec<(&str, u64)> {
        let patterns = self.expected.iter().map(|e| e.pattern.as_str());
        patterns.zip(self.lock().used.iter().copied()).collect()
    }

    /// Returns the patterns that matched fewer lines than expected: pattern, expected, matched.
    pub fn missing(&self) -> Vec<(&str, u64, u64)> {
        let state = self.lock();
        let all = self.expected.iter().zip(&state.used);
        all.filter(|(e, used)| **used < e.least)
            .map(|(e, used)| (e.pattern.as_str(), e.least, *used))
            .collect()
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
    fn expectations_name_a_whole_line_and_a_count() {
        let parse = |text| Expectation::parse(text).unwrap();
        let all = parse("gmc: fault of client *: write at * of vmid *");
        assert_eq!((all.least, all.most), (1, u64::MAX));
        assert!(all.matches("gmc: fault of client 8: write at 0x1000 of vmid 3"));
        assert!(!all.matches("x gmc: fault of client 8: write at 0x1000 of vmid 3"));
        assert!(!all.matches("gmc: fault of client 8: read at 0x1000 of vmid 3"));
        assert!(parse("a*").matches("a") && parse("*").matches("") && parse("a*a").matches("aba"));
        assert!(
            !parse("a*a").matches("a") && !parse("a").matches("ab") && !parse("*b").matches("a")
        );
        let counts = ["3:x", "0-2:x", "2-:x"].map(|t| (parse(t).least, parse(t).most));
        assert_eq!(counts, [(3, 3), (0, 2), (2, u64::MAX)]);
        assert_eq!(parse("cp: 3").pattern, "cp: 3");
        for bad in ["0:x", "3-2:x", "1-2-3:x", "-1-:x", "99999999999999999999:x"] {
            let parsed = Expectation::parse(bad);
            assert!(parsed.is_none_or(|e| e.pattern == bad), "{bad}");
        }
    }

    #[test]
    fn more_and_fewer_lines_than_expected_are_found() {
        let expected = ["2:a: *", "b: x", "0-1:c: x"].map(|t| Expectation::parse(t).unwrap());
        let log = Strict::new(expected.to_vec());
        log.lock().quiet = true;
        strict!(log, "a", "1");
        assert_eq!(log.missing(), [("a: *", 2, 1), ("b: x", 1, 0)]);
        strict!(log, "a", "2");
        strict!(log, "b", "x");
        assert_eq!(log.missing(), []);
        assert_eq!(log.unexpected(), 0);
        strict!(log, "a", "3");
        assert_eq!((log.unexpected(), log.expected_count()), (1, 3));
        assert_eq!(log.uses(), [("a: *", 2), ("b: x", 1), ("c: x", 0)]);
    }

    #[test]
    fn expected_lines_are_not_violations() {
        let log = Strict::new(vec![Expectation::parse("regs: no such register *").unwrap()]);
        log.lock().quiet = true;
        strict!(log, "regs", "no such register {:#x}", 4);
        strict!(log, "cp", "bad opcode {:#x}", 0xff);
        assert_eq!((log.unexpected(), log.expected_count()), (1, 1));
        assert_eq!(log.lines()[1], "cp: bad opcode 0xff");
    }
}
