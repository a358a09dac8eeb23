// SPDX-License-Identifier: GPL-2.0

//! A file of a card in sysfs: a name, the text that it has when it is read, and the effect of a
//! write.

use core::fmt::Write;

use kernel::{
    prelude::*,
    str::{parse_int::ParseInt, BStr},
    sync::Arc,
};

use crate::{
    asic::mmio::Mmio,
    card::smu::Smu,
    gpu::Gpu,
    kapi::{
        device_file::{Attribute, DeviceFile},
        kobject::{Store, Text},
    },
};

/// A file: its name and its text.
pub(super) type Fact = (&'static CStr, fn(&Gpu, &mut Text<'_>) -> Result);

/// The effect of a write to a file.
pub(super) type Action = fn(&Gpu, &[u8]) -> Result;

/// Creates a file of the card. `ENOMEM` without memory.
pub(super) fn file(gpu: &Arc<Gpu>, fact: &Fact, action: Option<Action>) -> Result<DeviceFile> {
    DeviceFile::add(gpu.dev(), attribute(gpu, fact, action)?)
}

/// Makes a file for a device. `ENOMEM` without memory.
pub(super) fn attribute(
    gpu: &Arc<Gpu>,
    (name, show): &Fact,
    action: Option<Action>,
) -> Result<Attribute> {
    let (reader, show) = (gpu.clone(), *show);
    let store = |action: Action| -> Result<KBox<dyn Store>> {
        let writer = gpu.clone();
        let store = KBox::new(move |text: &[u8]| action(&writer, text), GFP_KERNEL)?;
        Ok(store)
    };
    Attribute::new(
        name,
        move |out: &mut Text<'_>| show(&reader, out),
        action.map(store).transpose()?,
    )
}

/// Prints a number.
pub(super) fn line(out: &mut Text<'_>, number: u64) -> Result {
    Ok(writeln!(out, "{number}")?)
}

/// Parses a number as `kstrtoul` does: with a prefix of its radix, and without the end of a line.
/// `EINVAL` for anything else.
pub(super) fn number<T: ParseInt>(text: &[u8]) -> Result<T> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    T::from_str(BStr::from_bytes(text))
}

/// Parses a decimal number as `kstrtou32` does with base 10: without the end of a line. `EINVAL`
/// for anything else, `ERANGE` for a number that is too large.
pub(super) fn decimal(text: &[u8]) -> Result<u32> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(EINVAL);
    }
    let value = digits.iter().try_fold(0u32, |value, digit| {
        value.checked_mul(10)?.checked_add((digit - b'0').into())
    });
    value.ok_or(ERANGE)
}

/// Calls `f` with the SMU. `EOPNOTSUPP` if the driver does not manage it, `EBUSY` while the card
/// hangs, is being reset or suspended.
pub(super) fn with_smu<T>(gpu: &Gpu, f: impl FnOnce(&Smu, &Mmio) -> Result<T>) -> Result<T> {
    gpu.while_usable(EBUSY, || {
        let smu = gpu.smu().ok_or(EOPNOTSUPP)?;
        let result = gpu.mmio().and_then(|mmio| f(smu, mmio));
        result.map_err(|e| if e == ENODEV { EBUSY } else { e })
    })
}
