// SPDX-License-Identifier: GPL-2.0 OR MIT

//! List of intended differences: reStructuredText definition lists whose terms are patterns in
//! double back quotes.

/// Patterns with their reason, and whether a difference matched.
#[derive(Debug)]
struct Entry {
    patterns: Vec<String>,
    reason: String,
    used: bool,
}

/// List of intended differences.
#[derive(Debug, Default)]
pub struct Intended {
    entries: Vec<Entry>,
}

impl Intended {
    /// Parses the text: a line of patterns in double back quotes, followed by indented lines with
    /// the reason.
    pub fn parse(text: &str) -> Self {
        let mut intended = Self::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let next_indented = lines.peek().is_some_and(|l| l.starts_with(' '));
            if !line.starts_with("``") || !line.ends_with("``") || !next_indented {
                continue;
            }
            let patterns = line
                .split("``")
                .filter(|p| !p.trim_matches([',', ' ']).is_empty());
            let mut reason = String::new();
            while let Some(text) = lines.next_if(|l| l.starts_with(' ')) {
                if !reason.is_empty() {
                    reason.push(' ');
                }
                reason.push_str(text.trim());
            }
            intended.entries.push(Entry {
                patterns: patterns.map(str::to_string).collect(),
                reason,
                used: false,
            });
        }
        intended
    }

    /// Returns the reason for a difference, or `None`, and marks it as used.
    pub fn reason(&mut self, key: &str) -> Option<&str> {
        let entry = self.entries.iter_mut().find(|e| {
            e.patterns
                .iter()
                .any(|p| fits(p.as_bytes(), key.as_bytes()))
        })?;
        entry.used = true;
        Some(&entry.reason)
    }

    /// Returns the unused patterns.
    pub fn unused(&self) -> impl Iterator<Item = &[String]> {
        self.entries
            .iter()
            .filter(|e| !e.used)
            .map(|e| e.patterns.as_slice())
    }
}

/// Returns whether `key` matches `pattern`; `*` matches any text.
fn fits(pattern: &[u8], key: &[u8]) -> bool {
    match pattern.split_first() {
        None => key.is_empty(),
        Some((b'*', rest)) => (0..=key.len()).any(|n| fits(rest, &key[n..])),
        Some((first, rest)) => key
            .split_first()
            .is_some_and(|(k, tail)| k == first && fits(rest, tail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_unused_patterns() {
        let text = "Title\n=====\n\n``topology/*/properties:num_gws``, ``value/x``\n\
                    \x20   Because\n    of this.\n\n\
                    ``never``\n    No.\n\n``code`` in text\n";
        let mut intended = Intended::parse(text);
        assert_eq!(
            intended.reason("topology/nodes/1/properties:num_gws"),
            Some("Because of this.")
        );
        assert_eq!(intended.reason("value/x"), Some("Because of this."));
        assert_eq!(intended.reason("value/xy"), None);
        let unused: Vec<_> = intended.unused().collect();
        assert_eq!(unused, [["never".to_string()]]);
    }
}
