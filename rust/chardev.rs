// SPDX-License-Identifier: GPL-2.0

//! `/dev/kfd`: open, ioctl and mmap, each handed to those who do the work.

use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};

use crate::{
    ioctl,
    kapi::{
        chardev::{File, Registration},
        task,
        vma::{DeviceMemory, NewArea},
    },
    process::{self, Process},
    topology, trace,
};

/// The files of `/dev/kfd`.
struct Kfd;

#[vtable]
impl File for Kfd {
    type Private = Arc<Process>;
    const NAME: &'static CStr = c"kfd";
    const MODE: u16 = 0o666;

    fn open() -> Result<Arc<Process>> {
        // The structs of the ioctls are the same for 32 bits, the addresses in them are not.
        if task::in_compat_syscall() {
            return Err(EPERM);
        }
        process::open_current()
    }

    fn ioctl(process: ArcBorrow<'_, Process>, cmd: u32, arg: usize) -> Result<isize> {
        ioctl::dispatch(&process.into(), cmd, arg)
    }

    fn mmap(process: ArcBorrow<'_, Process>, area: NewArea<'_>) -> Result {
        let target = process.mmap_target(area.offset(), area.len())?;
        let device = process.device(target.gpu_id)?.clone();
        let start = area.start() as u64;
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

/// Registers of a GPU in a mapping of a process.
struct Registers {
    device: Arc<process::Device>,
    phys: u64,
}

impl DeviceMemory for Registers {
    fn phys(&self) -> Result<u64> {
        if self.device.is_gone() || self.device.gpu().is_gone() {
            return Err(ENODEV);
        }
        Ok(self.phys)
    }
}

/// The registered device with what hangs below it in sysfs.
pub(crate) struct Device {
    // Children go first.
    _topology: topology::SysfsRegistration,
    _processes: process::sysfs::Root,
    _registration: Registration<Kfd>,
}

impl Device {
    /// Registers `/dev/kfd`.
    pub(crate) fn new() -> Result<Self> {
        let registration = Registration::<Kfd>::new()?;
        Ok(Self {
            _topology: topology::SysfsRegistration::new(registration.device())?,
            _processes: process::sysfs::Root::new(registration.device())?,
            _registration: registration,
        })
    }
}
