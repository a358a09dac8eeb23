// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/process/events.rs`.

#[cfg(test)]
mod check;
#[allow(clippy::all)]
#[path = "../../../../rust/process/events/table.rs"]
mod table;
#[allow(clippy::all)]
#[path = "../../../../rust/process/events/types.rs"]
mod types;
#[allow(clippy::all)]
#[path = "../../../../rust/process/events/wait.rs"]
mod wait;
#[allow(clippy::all)]
#[path = "../../../../rust/process/events/waiters.rs"]
mod waiters;
