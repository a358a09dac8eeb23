// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the rate limit of messages.

use std::time::Duration;

use kernel::time::advance;

use super::log_limit::LogLimit;

#[test]
fn ten_messages_pass_in_five_seconds() {
    let mut limit = LogLimit::new();
    for _ in 0..10 {
        assert_eq!(limit.allows(), Some(0));
    }
    advance(Duration::from_millis(4900));
    assert_eq!(limit.allows(), None);
}

/// Messages that were suppressed are returned once, with the first one that passes again.
#[test]
fn suppressed_messages_are_counted() {
    let mut limit = LogLimit::new();
    for n in 0..25 {
        assert_eq!(limit.allows().is_some(), n < 10, "message {n}");
    }
    advance(Duration::from_millis(5100));
    assert_eq!(limit.allows(), Some(15));
    assert_eq!(limit.allows(), Some(0));
    advance(Duration::from_secs(60));
    assert_eq!(limit.allows(), Some(0));
}
