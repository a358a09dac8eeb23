// SPDX-License-Identifier: GPL-2.0

//! A PCI driver that is also told of suspend, resume and resets by others: the kernel crate's
//! adapter knows only of probe and removal.

use core::marker::PhantomData;

use kernel::{
    bindings,
    device::CoreInternal,
    driver::{DriverLayout, RegistrationOps},
    error::from_result,
    pci,
    prelude::*,
    types::Opaque, //
};

/// What happens to a bound device besides probe and removal. The device's lock is held in all of
/// these, so none of them meets a probe, a removal or another of them.
pub(crate) trait Hooks: pci::Driver {
    /// The machine is about to sleep. User space is frozen; the device may lose power afterwards.
    fn suspend(this: Pin<&Self::Data<'_>>) -> Result;

    /// The machine is awake again, or did not fall asleep. The device may have lost all that it
    /// held. Called only after a [`Hooks::suspend`] that was successful.
    fn resume(this: Pin<&Self::Data<'_>>) -> Result;

    /// The bus is about to reset the device: nothing may use it until [`Hooks::reset_done`].
    fn reset_prepare(this: Pin<&Self::Data<'_>>);

    /// The bus has reset the device.
    fn reset_done(this: Pin<&Self::Data<'_>>);
}

/// Registers a driver with all its hooks.
pub(crate) struct Adapter<T: Hooks>(PhantomData<T>);

/// The operations of one driver, as the kernel wants them: they live as long as the module.
struct Tables<T>(PhantomData<T>);

impl<T: Hooks> Tables<T> {
    const POWER: bindings::dev_pm_ops = bindings::dev_pm_ops {
        suspend: Some(suspend::<T>),
        resume: Some(resume::<T>),
        freeze: Some(suspend::<T>),
        thaw: Some(resume::<T>),
        poweroff: Some(suspend::<T>),
        restore: Some(resume::<T>),
        ..pin_init::zeroed()
    };
    const ERRORS: bindings::pci_error_handlers = bindings::pci_error_handlers {
        reset_prepare: Some(reset_prepare::<T>),
        reset_done: Some(reset_done::<T>),
        ..pin_init::zeroed()
    };
    const POWER_REF: &'static bindings::dev_pm_ops = &Self::POWER;
    const ERRORS_REF: &'static bindings::pci_error_handlers = &Self::ERRORS;
}

// SAFETY: As of the kernel crate's adapter, which registers and unregisters it.
unsafe impl<T: Hooks> DriverLayout for Adapter<T> {
    type DriverType = bindings::pci_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = <pci::Adapter<T> as DriverLayout>::DEVICE_DRIVER_OFFSET;
}

// SAFETY: The kernel crate's adapter does both.
unsafe impl<T: Hooks> RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        // SAFETY: Nobody else knows of the driver before it is registered; both tables are
        // constants.
        unsafe {
            (*pdrv.get()).driver.pm = Tables::<T>::POWER_REF;
            (*pdrv.get()).err_handler = Tables::<T>::ERRORS_REF;
        }
        // SAFETY: The caller's promise is passed on.
        unsafe { <pci::Adapter<T> as RegistrationOps>::register(pdrv, name, module) }
    }

    unsafe fn unregister(pdrv: &Opaque<Self::DriverType>) {
        // SAFETY: The caller's promise is passed on.
        unsafe { <pci::Adapter<T> as RegistrationOps>::unregister(pdrv) }
    }
}

/// What the driver keeps of a device.
///
/// # Safety
///
/// `pdev` is bound to a driver whose data is a `T`, and stays so while `f` runs.
unsafe fn with_data<T, R>(pdev: *mut bindings::pci_dev, f: impl FnOnce(Pin<&T>) -> R) -> R {
    // SAFETY: The caller passes a device; the kernel crate's type is a transparent wrapper.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: The data was set at the end of the probe and is of this type, as the caller says.
    f(unsafe { pdev.as_ref().drvdata_borrow::<T>() })
}

fn pci_dev(dev: *mut bindings::device) -> *mut bindings::pci_dev {
    // SAFETY: The power management of the PCI bus passes the device inside of a `pci_dev`.
    unsafe { kernel::container_of!(dev, bindings::pci_dev, dev) }
}

/// # Safety
///
/// Called by the kernel with the device of a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn suspend<T: Hooks>(dev: *mut bindings::device) -> c_int {
    // SAFETY: Called for devices that are bound to the driver, with their lock held.
    let result = unsafe { with_data(pci_dev(dev), |data| T::suspend(data)) };
    from_result(|| result.map(|()| 0))
}

/// # Safety
///
/// Called by the kernel with the device of a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn resume<T: Hooks>(dev: *mut bindings::device) -> c_int {
    // SAFETY: As above.
    let result = unsafe { with_data(pci_dev(dev), |data| T::resume(data)) };
    from_result(|| result.map(|()| 0))
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn reset_prepare<T: Hooks>(pdev: *mut bindings::pci_dev) {
    // SAFETY: As above.
    unsafe { with_data(pdev, |data| T::reset_prepare(data)) }
}

/// # Safety
///
/// Called by the kernel with a `pci_dev` that is bound to a driver with these hooks, its lock held.
unsafe extern "C" fn reset_done<T: Hooks>(pdev: *mut bindings::pci_dev) {
    // SAFETY: As above.
    unsafe { with_data(pdev, |data| T::reset_done(data)) }
}
