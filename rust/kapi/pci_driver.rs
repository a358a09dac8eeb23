// SPDX-License-Identifier: GPL-2.0

//! PCI drivers with shutdown, power management, reset and error callbacks, which the adapter of
//! `kernel::pci` lacks.
//!
//! C headers: [`include/linux/pci.h`](srctree/include/linux/pci.h),
//! [`include/linux/pm.h`](srctree/include/linux/pm.h)
//!
//! # Examples
//!
//! ```ignore
//! #[vtable]
//! impl pci_driver::Hooks for Driver {
//!     fn suspend(this: Pin<&Self::Data<'_>>) -> Result {
//!         this.gpu.suspend()
//!     }
//!     fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result {
//!         this.gpu.resume(pdev)
//!     }
//! }
//!
//! kernel::driver::Registration::<pci_driver::Adapter<Driver>>::new(name, module)
//! ```

use core::marker::PhantomData;

use kernel::{
    bindings,
    device::{Core, CoreInternal},
    driver::{DriverLayout, RegistrationOps},
    error::{from_result, VTABLE_DEFAULT_ERROR},
    pci,
    prelude::*,
    types::Opaque, //
};

/// State of the link to a device (`pci_channel_state_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The device can be accessed.
    Normal,
    /// Accesses have no effect, until the link is reset.
    Frozen,
    /// The device is lost.
    Lost,
}

impl Channel {
    fn new(state: bindings::pci_channel_state_t) -> Self {
        match state {
            bindings::pci_channel_io_normal => Self::Normal,
            bindings::pci_channel_io_frozen => Self::Frozen,
            _ => Self::Lost,
        }
    }
}

/// Result of an error callback (`pci_ers_result_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The device works, and needs no reset of the link.
    CanRecover,
    /// The link has to be reset.
    NeedReset,
    /// The device works again.
    Recovered,
    /// The device does not recover.
    Disconnect,
}

impl Verdict {
    fn raw(self) -> bindings::pci_ers_result_t {
        match self {
            Self::CanRecover => bindings::pci_ers_result_PCI_ERS_RESULT_CAN_RECOVER,
            Self::NeedReset => bindings::pci_ers_result_PCI_ERS_RESULT_NEED_RESET,
            Self::Recovered => bindings::pci_ers_result_PCI_ERS_RESULT_RECOVERED,
            Self::Disconnect => bindings::pci_ers_result_PCI_ERS_RESULT_DISCONNECT,
        }
    }
}

/// Callbacks for a bound device (`struct pci_driver`, `struct dev_pm_ops`,
/// `struct pci_error_handlers`), all optional.
///
/// Called with the lock of the device held: never concurrently with each other, probe or removal.
#[vtable]
pub(crate) trait Hooks: pci::Driver {
    /// Called before the machine is powered off or restarted, or another kernel is started by
    /// `kexec`: DMA by the device must end. User space may run.
    fn shutdown(_pdev: &pci::Device<Core<'_>>, _this: Pin<&Self::Data<'_>>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called before the system sleeps, with user space frozen. The device may lose power
    /// afterwards.
    fn suspend(_this: Pin<&Self::Data<'_>>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after the sleep, or when it was aborted, if [`Hooks::suspend`] succeeded. The device
    /// may have lost its state.
    fn resume(_pdev: &pci::Device<Core<'_>>, _this: Pin<&Self::Data<'_>>) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called before the PCI core resets the device, which must not be accessed until
    /// [`Hooks::reset_done`].
    fn reset_prepare(_this: Pin<&Self::Data<'_>>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after the PCI core has reset the device.
    fn reset_done(_pdev: &pci::Device<Core<'_>>, _this: Pin<&Self::Data<'_>>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after an uncorrectable error of the link to the device, or of another device below
    /// the same port.
    fn error_detected(_this: Pin<&Self::Data<'_>>, _channel: Channel) -> Verdict {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Called after the link was reset: the device has lost its state, configuration space
    /// included. [`Hooks::error_detected`] may have been called for an earlier binding, or for an
    /// error that was not fatal.
    fn slot_reset(_pdev: &pci::Device<Core<'_>>, _this: Pin<&Self::Data<'_>>) -> Verdict {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// Returns `$callback` if `$has`.
macro_rules! optional {
    ($has:expr, $callback:expr) => {
        if $has {
            Some($callback)
        } else {
            None
        }
    };
}

/// Registers a driver with its [`Hooks`].
pub(crate) struct Adapter<T: Hooks>(PhantomData<T>);

/// The C tables of a driver.
struct Tables<T>(PhantomData<T>);

impl<T: Hooks> Tables<T> {
    const POWER: bindings::dev_pm_ops = bindings::dev_pm_ops {
        suspend: optional!(T::HAS_SUSPEND, suspend::<T>),
        resume: optional!(T::HAS_RESUME, resume::<T>),
        freeze: optional!(T::HAS_SUSPEND, suspend::<T>),
        thaw: optional!(T::HAS_RESUME, resume::<T>),
        poweroff: optional!(T::HAS_SUSPEND, suspend::<T>),
        restore: optional!(T::HAS_RESUME, resume::<T>),
        ..pin_init::zeroed()
    };
    const ERRORS: bindings::pci_error_handlers = bindings::pci_error_handlers {
        reset_prepare: optional!(T::HAS_RESET_PREPARE, reset_prepare::<T>),
        reset_done: optional!(T::HAS_RESET_DONE, reset_done::<T>),
        error_detected: optional!(T::HAS_ERROR_DETECTED, error_detected::<T>),
        slot_reset: optional!(T::HAS_SLOT_RESET, slot_reset::<T>),
        ..pin_init::zeroed()
    };
    const POWER_REF: &'static bindings::dev_pm_ops = &Self::POWER;
    const ERRORS_REF: &'static bindings::pci_error_handlers = &Self::ERRORS;
}

// SAFETY: The same types and offset as of `pci::Adapter<T>`, which registers the driver and sets
// its data: a `pci_driver` with a `device_driver` at that offset, and `T::Data` once probed.
unsafe impl<T: Hooks> DriverLayout for Adapter<T> {
    type DriverType = bindings::pci_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = <pci::Adapter<T> as DriverLayout>::DEVICE_DRIVER_OFFSET;
}

// SAFETY: Registration and unregistration are those of `pci::Adapter<T>`, for the same
// `pci_driver`.
unsafe impl<T: Hooks> RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        // SAFETY: The driver is not registered yet, so this is the only access; `register` of
        // `pci::Adapter` does not write these members. Both tables are static.
        unsafe {
            (*pdrv.get()).shutdown = optional!(T::HAS_SHUTDOWN, shutdown::<T>);
            (*pdrv.get()).driver.pm = Tables::<T>::POWER_REF;
            (*pdrv.get()).err_handler = Tables::<T>::ERRORS_REF;
        }
        // SAFETY: The requirements are the same as those of this function.
        unsafe { <pci::Adapter<T> as RegistrationOps>::register(pdrv, name, module) }
    }

    unsafe fn unregister(pdrv: &Opaque<Self::DriverType>) {
        // SAFETY: The requirements are the same as those of this function.
        unsafe { <pci::Adapter<T> as RegistrationOps>::unregister(pdrv) }
    }
}

/// Calls `f` with a device and the driver's data of it.
///
/// # Safety
///
/// `pdev` is bound to a driver whose data are a `T`, and its lock is held while `f` runs.
unsafe fn with_data<T, R>(
    pdev: *mut bindings::pci_dev,
    f: impl FnOnce(&pci::Device<Core<'_>>, Pin<&T>) -> R,
) -> R {
    // SAFETY: Valid by the safety requirement; `pci::Device` is transparent.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: The device is bound, so that probe has set the data, which are a `T` by the safety
    // requirement; the lock keeps the unbind, which drops them, from running.
    f(pdev, unsafe { pdev.as_ref().drvdata_borrow::<T>() })
}

fn pci_dev(dev: *mut bindings::device) -> *mut bindings::pci_dev {
    // SAFETY: The callers are operations of a PCI driver: their devices are part of a `pci_dev`.
    unsafe { kernel::container_of!(dev, bindings::pci_dev, dev) }
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn shutdown<T: Hooks>(pdev: *mut bindings::pci_dev) {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    unsafe { with_data(pdev, |pdev, data| T::shutdown(pdev, data)) }
}

/// # Safety
///
/// Called by the kernel with the device of a `pci_dev` that is bound to a driver with these hooks,
/// its lock held.
unsafe extern "C" fn suspend<T: Hooks>(dev: *mut bindings::device) -> c_int {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    let result = unsafe { with_data(pci_dev(dev), |_, data| T::suspend(data)) };
    from_result(|| result.map(|()| 0))
}

/// # Safety
///
/// Called by the kernel with the device of a `pci_dev` that is bound to a driver with these hooks,
/// its lock held.
unsafe extern "C" fn resume<T: Hooks>(dev: *mut bindings::device) -> c_int {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    let result = unsafe { with_data(pci_dev(dev), |pdev, data| T::resume(pdev, data)) };
    from_result(|| result.map(|()| 0))
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn reset_prepare<T: Hooks>(pdev: *mut bindings::pci_dev) {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    unsafe { with_data(pdev, |_, data| T::reset_prepare(data)) }
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn reset_done<T: Hooks>(pdev: *mut bindings::pci_dev) {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    unsafe { with_data(pdev, |pdev, data| T::reset_done(pdev, data)) }
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn error_detected<T: Hooks>(
    pdev: *mut bindings::pci_dev,
    state: bindings::pci_channel_state_t,
) -> bindings::pci_ers_result_t {
    let channel = Channel::new(state);
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    unsafe { with_data(pdev, |_, data| T::error_detected(data, channel)) }.raw()
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn slot_reset<T: Hooks>(
    pdev: *mut bindings::pci_dev,
) -> bindings::pci_ers_result_t {
    // SAFETY: The device is bound to a driver with data `T::Data`, its lock held, by the safety
    // requirement.
    unsafe { with_data(pdev, |pdev, data| T::slot_reset(pdev, data)) }.raw()
}
