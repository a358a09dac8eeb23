// SPDX-License-Identifier: GPL-2.0

//! SMU mailbox of firmware 13.0.6: mode-1 reset and SDMA engine reset.

use kernel::{io::poll::read_poll_timeout, prelude::*, time::Delta};
use rkfd_abi::{
    discovery::hwid,
    regs::Value,
    smu::{msg, response, ARGUMENT, MESSAGE, RESPONSE},
};

use crate::asic::mmio::Mmio;

/// Message timeout in ms (C: `default_timeout`, `__smu_msg_v1_poll_stat`, `smu_cmn.c`).
const TIMEOUT_MS: i64 = 2000;

/// Sends a message and waits for the response. Callers serialise. `ETIMEDOUT` without a response,
/// `EIO` when it failed, `EOPNOTSUPP` for an unknown message, `EINVAL` when a prerequisite is
/// missing, `EBUSY` when firmware is busy, `EREMOTEIO` for other responses
/// (`smu_msg_v1_decode_response`, `smu_cmn.c`).
fn send(mmio: &Mmio, message: u32, argument: u32) -> Result {
    let b = mmio.block(hwid::MP1, 0)?;
    b.wr(RESPONSE, 0)?;
    b.wr(ARGUMENT, argument)?;
    b.wr(MESSAGE, message)?;
    let response = read_poll_timeout(
        || b.rd(RESPONSE).map(Value::raw),
        |v| *v != 0,
        Delta::from_micros(10),
        Delta::from_millis(TIMEOUT_MS),
    )?;
    match response {
        response::OK => Ok(()),
        response::FAILED => Err(EIO),
        response::UNKNOWN_CMD => Err(EOPNOTSUPP),
        response::REJECTED_PREREQ => Err(EINVAL),
        response::REJECTED_BUSY => Err(EBUSY),
        _ => Err(EREMOTEIO),
    }
}

/// Starts a mode-1 reset; firmware responds before it begins. Errors as [`send`].
pub(super) fn mode1_reset(mmio: &Mmio) -> Result {
    const MODE_1: u32 = 1;
    send(mmio, msg::GFX_DRIVER_RESET, MODE_1)
}

/// Resets an SDMA engine, by its logical number; firmware takes a mask of physical ones
/// (`sdma_v4_4_2_soft_reset_engine`, `amdgpu/sdma_v4_4_2.c`). Errors as [`send`], and `ENODEV` when
/// there is no such engine.
pub(super) fn reset_sdma(mmio: &Mmio, engine: u32) -> Result {
    let engine = mmio
        .instances()
        .physical(hwid::SDMA0, u8::try_from(engine)?)?;
    send(mmio, msg::RESET_SDMA, 1 << engine)
}
