// SPDX-License-Identifier: GPL-2.0

//! One MSI-X (or MSI) vector of a PCI device with a threaded handler.
//!
//! The registrations of `kernel::irq` are `unsafe` to create, as they must not be forgotten. This
//! one belongs to the binding of the device ([`Devres`]): if it is forgotten, it ends there.
//!
//! C header: [`include/linux/interrupt.h`](srctree/include/linux/interrupt.h)
//!
//! # Examples
//!
//! ```ignore
//! struct Ih { gpu: Arc<Gpu> }
//!
//! impl irq::Handler for Ih {
//!     fn handle(&self) {
//!         self.gpu.drain_ih_ring();
//!     }
//! }
//!
//! let irq = Irq::new(pdev, c"rkfd", Arc::new(Ih { gpu }, GFP_KERNEL)?)?;
//! ```

use core::{ffi::c_void, marker::PhantomData};

use kernel::{
    bindings,
    device::{Bound, Core},
    devres::Devres,
    error::to_result,
    pci,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::ForeignOwnable, //
};

use super::{fence::signalling::Signalling, pci::raw};

/// The handler of an interrupt.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles the interrupt, in the interrupt thread; may sleep.
    fn handle(&self);
}

/// A requested interrupt vector. Dropping it waits until the handler has returned, then frees the
/// vector; so does the unbind of the device, should it come first.
pub(crate) struct Irq<T: Handler> {
    _registration: Devres<Registration<T>>,
}

/// # Invariants
///
/// The vectors of `pdev` are allocated, and `irq` is requested with `cookie`, which owns a
/// reference to an `Arc<T>`.
struct Registration<T: Handler> {
    pdev: ARef<pci::Device>,
    irq: u32,
    cookie: *mut c_void,
    _p: PhantomData<Arc<T>>,
}

// SAFETY: An interrupt may be freed by any task; `T` is `Send` and `Sync`.
unsafe impl<T: Handler> Send for Registration<T> {}
// SAFETY: There are no methods on shared references.
unsafe impl<T: Handler> Sync for Registration<T> {}

impl<T: Handler> Irq<T> {
    /// Allocates one vector, MSI-X if possible, and requests it with `handler`. `ENOSPC` if the
    /// device has neither MSI-X nor MSI.
    pub(crate) fn new(
        pdev: &pci::Device<Core<'_>>,
        name: &'static CStr,
        handler: Arc<T>,
    ) -> Result<Self> {
        let bound: &pci::Device<Bound> = pdev;
        Ok(Self {
            _registration: Devres::new(bound.as_ref(), Registration::new(bound, name, handler)?)?,
        })
    }
}

impl<T: Handler> Registration<T> {
    fn new(pdev: &pci::Device<Bound>, name: &'static CStr, handler: Arc<T>) -> Result<Self> {
        let pdev: &pci::Device = pdev;
        let types = bindings::PCI_IRQ_MSIX | bindings::PCI_IRQ_MSI;
        // SAFETY: The device is valid, and bound to this driver, which owns its vectors.
        let n = unsafe { bindings::pci_alloc_irq_vectors(raw(pdev), 1, 1, types) };
        to_result(n)?;
        // SAFETY: The device is valid; vector 0 was allocated above.
        let irq = unsafe { bindings::pci_irq_vector(raw(pdev), 0) };
        let cookie = handler.into_foreign().cast::<c_void>();
        let ret = to_result(irq).and_then(|()| {
            // SAFETY: `cookie` owns a reference to the handler until `free_irq()` has returned;
            // `thread_fn::<T>` expects such a pointer. `name` is static.
            to_result(unsafe {
                bindings::request_threaded_irq(
                    irq as u32,
                    None,
                    Some(thread_fn::<T>),
                    bindings::IRQF_ONESHOT as usize,
                    name.as_char_ptr(),
                    cookie,
                )
            })
        });
        if let Err(e) = ret {
            // SAFETY: The cookie came from `into_foreign()`, and the failed request kept no copy.
            drop(unsafe { Arc::<T>::from_foreign(cookie.cast()) });
            // SAFETY: The vectors were allocated above, and none of them is requested.
            unsafe { bindings::pci_free_irq_vectors(raw(pdev)) };
            return Err(e);
        }
        // INVARIANT: Allocated and requested above.
        Ok(Self {
            pdev: pdev.into(),
            irq: irq as u32,
            cookie,
            _p: PhantomData,
        })
    }
}

impl<T: Handler> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the interrupt is requested with this cookie. `Devres` runs
        // this before the device is unbound, so that the vectors are still those of the driver.
        // After `free_irq()` no handler runs, and the reference of the cookie can be dropped.
        unsafe {
            bindings::free_irq(self.irq, self.cookie);
            bindings::pci_free_irq_vectors(raw(&self.pdev));
            drop(Arc::<T>::from_foreign(self.cookie.cast()));
        }
    }
}

/// # Safety
///
/// Called by the kernel with the cookie of a [`Registration`] with a handler of this type.
unsafe extern "C" fn thread_fn<T: Handler>(
    _irq: i32,
    cookie: *mut c_void,
) -> bindings::irqreturn_t {
    // SAFETY: `cookie` came from `into_foreign()`, and is owned until `free_irq()` has returned,
    // which waits for this function.
    let handler = unsafe { Arc::<T>::borrow(cookie.cast()) };
    let _signalling = Signalling::new();
    handler.handle();
    bindings::irqreturn::IRQ_HANDLED
}
