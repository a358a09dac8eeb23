// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults of accesses that engines make for the driver, in VMID 0.

use std::fmt;

use super::env::Env;
use crate::engines::gmc::VmFault;
use crate::strict;

/// Raises a fault of client `client`, and reports it as a violation of `unit`, unless the card may
/// not access the bus: then the driver has cut it off.
pub fn raise_of_driver(
    env: &dyn Env,
    unit: &str,
    fault: &VmFault,
    client: u8,
    what: fmt::Arguments<'_>,
) {
    if !fault.is_refused() {
        strict!(env.strict(), unit, "{what}: {fault}");
    }
    env.raise_fault(fault, client);
}
