// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/process`.

mod events;
#[allow(clippy::all)]
#[path = "../../../rust/process/handles.rs"]
mod handles;
#[cfg(test)]
mod handles_check;
#[allow(clippy::all)]
#[path = "../../../rust/process/retry/refused.rs"]
mod refused;
#[cfg(test)]
mod refused_check;
