// SPDX-License-Identifier: GPL-2.0

//! SMU mailbox of firmware 14.0.3: mode-1 reset.

use kernel::prelude::*;
use rkfd_abi::{discovery::hwid, regs::mp_14_0_2 as mp, smu::v14};

use crate::asic::mmio::Mmio;

/// Starts a mode-1 reset, by a message to the debug mailbox, which does not respond
/// (`__smu_cmn_send_debug_msg`). `ENODEV` after unbind.
pub(super) fn mode1_reset(mmio: &Mmio) -> Result {
    let b = mmio.block(hwid::MP1, 0)?;
    let _guard = mmio.lock_mailbox();
    b.wr(mp::regMP1_SMN_C2PMSG_53, 0)?;
    b.wr(mp::regMP1_SMN_C2PMSG_75, v14::DEBUG_MODE_1_RESET)
}
