// SPDX-License-Identifier: GPL-2.0

//! `SVM`: attributes of ranges of user memory.

use core::mem::{offset_of, size_of};

use kernel::{
    num::casts::u32_as_usize,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};

use crate::{
    process::Process,
    svm::{Change, Summary, Svm},
    uapi::{
        kfd_ioctl_svm_args, kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_ACCESS as ATTR_ACCESS,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE as ATTR_ACCESS_IN_PLACE,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_CLR_FLAGS as ATTR_CLR_FLAGS,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_GRANULARITY as ATTR_GRANULARITY,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_NO_ACCESS as ATTR_NO_ACCESS,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_PREFERRED_LOC as ATTR_PREFERRED_LOC,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_PREFETCH_LOC as ATTR_PREFETCH_LOC,
        kfd_ioctl_svm_attr_type_KFD_IOCTL_SVM_ATTR_SET_FLAGS as ATTR_SET_FLAGS,
        kfd_ioctl_svm_attribute,
        kfd_ioctl_svm_location_KFD_IOCTL_SVM_LOCATION_SYSMEM as LOCATION_SYSMEM,
        kfd_ioctl_svm_location_KFD_IOCTL_SVM_LOCATION_UNDEFINED as LOCATION_UNDEFINED,
        kfd_ioctl_svm_op_KFD_IOCTL_SVM_OP_GET_ATTR as OP_GET_ATTR,
        kfd_ioctl_svm_op_KFD_IOCTL_SVM_OP_SET_ATTR as OP_SET_ATTR,
    },
};

const HEADER: usize = size_of::<kfd_ioctl_svm_args>();
const ATTRIBUTE: usize = size_of::<kfd_ioctl_svm_attribute>();

/// Returns the bytes at `at`; `EINVAL` behind the end.
fn bytes<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N]> {
    data.get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(EINVAL)
}

fn word(data: &[u8], at: usize) -> Result<u32> {
    bytes(data, at).map(u32::from_ne_bytes)
}

/// An attribute in the arguments.
struct Attribute {
    kind: u32,
    value: u32,
}

impl Attribute {
    fn read(data: &[u8], index: usize) -> Result<Self> {
        let at = HEADER + index * ATTRIBUTE;
        Ok(Self {
            kind: word(data, at + offset_of!(kfd_ioctl_svm_attribute, type_))?,
            value: word(data, at + offset_of!(kfd_ioctl_svm_attribute, value))?,
        })
    }

    fn write(&self, data: &mut [u8], index: usize) -> Result {
        let at = HEADER + index * ATTRIBUTE;
        for (offset, word) in [
            (offset_of!(kfd_ioctl_svm_attribute, type_), self.kind),
            (offset_of!(kfd_ioctl_svm_attribute, value), self.value),
        ] {
            data.get_mut(at + offset..at + offset + 4)
                .ok_or(EINVAL)?
                .copy_from_slice(&word.to_ne_bytes());
        }
        Ok(())
    }

    /// Returns the change that SET_ATTR makes. `EINVAL` for an unknown type or GPU.
    fn change(&self, process: &Process) -> Result<Change> {
        let value = self.value;
        let gpu = || process.gpu_bit(value);
        let is_system = value == LOCATION_SYSMEM;
        Ok(match self.kind {
            ATTR_PREFERRED_LOC => {
                if !is_system && value != LOCATION_UNDEFINED {
                    gpu()?;
                }
                Change::Preferred(value)
            }
            ATTR_PREFETCH_LOC => {
                if !is_system {
                    gpu()?;
                }
                Change::Prefetch(value)
            }
            ATTR_ACCESS => Change::Access(gpu()?),
            ATTR_ACCESS_IN_PLACE => Change::InPlace(gpu()?),
            ATTR_NO_ACCESS => Change::NoAccess(gpu()?),
            ATTR_SET_FLAGS => Change::SetFlags(value),
            ATTR_CLR_FLAGS => Change::ClearFlags(value),
            ATTR_GRANULARITY => Change::Granularity(value),
            _ => return Err(EINVAL),
        })
    }

    /// Returns whether GET_ATTR returns attributes of this type.
    fn is_readable(&self) -> bool {
        matches!(
            self.kind,
            ATTR_PREFERRED_LOC
                | ATTR_PREFETCH_LOC
                | ATTR_ACCESS
                | ATTR_SET_FLAGS
                | ATTR_CLR_FLAGS
                | ATTR_GRANULARITY
        )
    }

    /// Fills in the value for GET_ATTR. `EINVAL` for an unknown GPU.
    fn fill(&mut self, process: &Process, summary: &Summary) -> Result {
        match self.kind {
            ATTR_PREFERRED_LOC => {
                self.value = summary.preferred;
            }
            ATTR_PREFETCH_LOC => {
                self.value = summary.prefetch;
            }
            ATTR_ACCESS => {
                let gpu = process.gpu_bit(self.value)?;
                self.kind = if summary.access & gpu != 0 {
                    ATTR_ACCESS
                } else if summary.in_place & gpu != 0 {
                    ATTR_ACCESS_IN_PLACE
                } else {
                    ATTR_NO_ACCESS
                };
            }
            ATTR_SET_FLAGS => {
                self.value = summary.flags_all;
            }
            ATTR_CLR_FLAGS => {
                self.value = !summary.flags_any;
            }
            ATTR_GRANULARITY => {
                self.value = summary.granularity;
            }
            _ => {}
        }
        Ok(())
    }
}

/// `SVM`. `EINVAL` if the attributes do not fit the size of the command, `EOPNOTSUPP` for a
/// secondary process, `EINVAL` for addresses that are not page aligned or 0, an unknown operation,
/// attribute or GPU; otherwise as [`Svm::set`] and [`Svm::get`].
pub(super) fn svm(process: &Arc<Process>, data: &mut [u8], given: usize) -> Result {
    let count = u32_as_usize(word(data, offset_of!(kfd_ioctl_svm_args, nattr))?);
    let needed = count
        .checked_mul(ATTRIBUTE)
        .and_then(|n| n.checked_add(HEADER))
        .ok_or(EINVAL)?;
    if given < needed {
        return Err(EINVAL);
    }
    if !process.is_primary() {
        return Err(EOPNOTSUPP);
    }
    let start = u64::from_ne_bytes(bytes(data, offset_of!(kfd_ioctl_svm_args, start_addr))?);
    let size = u64::from_ne_bytes(bytes(data, offset_of!(kfd_ioctl_svm_args, size))?);
    let page = PAGE_SIZE as u64;
    if start % page != 0 || size % page != 0 || start == 0 || size == 0 {
        return Err(EINVAL);
    }
    let (first, pages) = (start >> PAGE_SHIFT, size >> PAGE_SHIFT);
    match word(data, offset_of!(kfd_ioctl_svm_args, op))? {
        OP_SET_ATTR => {
            let mut changes = KVec::with_capacity(count, GFP_KERNEL)?;
            for index in 0..count {
                changes.push_within_capacity(Attribute::read(data, index)?.change(process)?)?;
            }
            Svm::set(process.svm(), first, pages, &changes)?;
        }
        OP_GET_ATTR => {
            let summary = process.svm().get(first, pages)?;
            for index in 0..count {
                if !Attribute::read(data, index)?.is_readable() {
                    return Err(EINVAL);
                }
            }
            for index in 0..count {
                let mut attribute = Attribute::read(data, index)?;
                attribute.fill(process, &summary)?;
                attribute.write(data, index)?;
            }
        }
        _ => return Err(EINVAL),
    }
    Ok(())
}
