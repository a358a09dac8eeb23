// SPDX-License-Identifier: GPL-2.0

//! The character device `/dev/kfd`: open, ioctl, mmap.

use kernel::{num::casts::usize_as_u64, prelude::*, sync::Arc};

use crate::{
    ioctl,
    kapi::{
        chardev::{File, Registration},
        uaccess,
        vma::{DeviceMemory, NewArea},
    },
    process::{self, KfdFile, ProcessDevice},
    topology, trace,
};

/// File operations of `/dev/kfd`.
struct Kfd;

#[vtable]
impl File for Kfd {
    type Private = KBox<KfdFile>;
    const NAME: &'static CStr = c"kfd";

    fn open() -> Result<KBox<KfdFile>> {
        // Argument layouts are the same for 32-bit programs, but GPU addresses exceed 32 bits.
        if uaccess::in_compat_syscall() {
            return Err(EPERM);
        }
        KfdFile::open()
    }

    fn ioctl(file: &KfdFile, cmd: u32, arg: usize) -> Result<isize> {
        ioctl::dispatch(file, cmd, arg)
    }

    fn mmap(file: &KfdFile, area: NewArea<'_>) -> Result {
        let process = file.process();
        let target = process.mmap_target(area.offset(), area.len())?;
        let device = process.device(target.gpu_id)?.clone();
        let start = usize_as_u64(area.start());
        let registers = Registers {
            device,
            phys: target.phys,
        };
        let registers = Arc::new(registers, GFP_KERNEL)?;
        area.map_device(registers.device.gpu().pdev(), registers.clone())?;
        if target.is_doorbell {
            trace::doorbell_map(process.pid(), target.gpu_id, target.phys, start);
        }
        Ok(())
    }
}

/// Doorbell page or MMIO remap page of a GPU mapped by a process.
struct Registers {
    device: Arc<ProcessDevice>,
    phys: u64,
}

impl DeviceMemory for Registers {
    fn phys(&self) -> Result<u64> {
        if self.device.is_detached() || self.device.gpu().is_unplugged() {
            return Err(ENODEV);
        }
        Ok(self.phys)
    }
}

/// `/dev/kfd` with its sysfs directories. Unregistered on drop.
pub(crate) struct Device {
    // Field order: children are removed first.
    _topology: topology::SysfsRegistration,
    _processes: process::sysfs::Root,
    _registration: Registration<Kfd>,
}

impl Device {
    /// Registers `/dev/kfd` and its sysfs directories. `ENOMEM` without memory.
    pub(crate) fn new() -> Result<Self> {
        let registration = Registration::<Kfd>::new()?;
        Ok(Self {
            _topology: topology::SysfsRegistration::new(registration.device())?,
            _processes: process::sysfs::Root::new(registration.device())?,
            _registration: registration,
        })
    }
}
