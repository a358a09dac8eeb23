// SPDX-License-Identifier: GPL-2.0

//! One MSI-X (or MSI) vector of a PCI device with a threaded handler.

use core::ffi::c_void;

use kernel::{
    bindings,
    device::Core,
    error::to_result,
    pci,
    prelude::*,
    sync::{aref::ARef, Arc},
    types::ForeignOwnable, //
};

/// What runs when the interrupt fires.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Runs in the interrupt thread; may sleep.
    fn handle(&self);
}

/// A requested interrupt vector.
///
/// # Invariants
///
/// The vectors of `pdev` are allocated, and `irq` is requested with `cookie`, which owns a
/// reference to an `Arc<T>`.
pub(crate) struct Irq<T: Handler> {
    pdev: ARef<pci::Device>,
    irq: u32,
    cookie: *mut c_void,
    _p: core::marker::PhantomData<Arc<T>>,
}

// SAFETY: Freeing an interrupt works from any task; `T` is `Send` and `Sync`.
unsafe impl<T: Handler> Send for Irq<T> {}
// SAFETY: There are no methods on a shared reference besides reading `irq`.
unsafe impl<T: Handler> Sync for Irq<T> {}

fn raw(pdev: &pci::Device) -> *mut bindings::pci_dev {
    core::ptr::from_ref(pdev).cast_mut().cast()
}

impl<T: Handler> Irq<T> {
    /// Allocates one vector and requests it with `handler`.
    ///
    /// The interrupt must be dropped before the driver leaves the device; dropping waits until
    /// no handler runs any more.
    pub(crate) fn new(
        pdev: &pci::Device<Core<'_>>,
        name: &'static CStr,
        handler: Arc<T>,
    ) -> Result<Self> {
        let pdev: &pci::Device = pdev;
        let types = bindings::PCI_IRQ_MSIX | bindings::PCI_IRQ_MSI;
        // SAFETY: `pdev` is a valid device in its probe callback.
        let n = unsafe { bindings::pci_alloc_irq_vectors(raw(pdev), 1, 1, types) };
        to_result(n)?;
        // SAFETY: One vector was allocated above.
        let irq = unsafe { bindings::pci_irq_vector(raw(pdev), 0) };
        let cookie = handler.into_foreign().cast::<c_void>();
        let ret = to_result(irq).and_then(|()| {
            // SAFETY: `cookie` owns a reference to the handler until `free_irq()` in `drop()`, and
            // `thread_fn` expects exactly this kind of pointer.
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
            // SAFETY: The cookie came from `into_foreign()` and nobody else got it.
            drop(unsafe { Arc::<T>::from_foreign(cookie.cast()) });
            // SAFETY: The vectors were allocated above.
            unsafe { bindings::pci_free_irq_vectors(raw(pdev)) };
            return Err(e);
        }
        // INVARIANT: Allocated and requested above.
        Ok(Self {
            pdev: pdev.into(),
            irq: irq as u32,
            cookie,
            _p: core::marker::PhantomData,
        })
    }
}

impl<T: Handler> Drop for Irq<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the interrupt was requested with this cookie; after
        // `free_irq()` no handler runs, so the reference can be taken back.
        unsafe {
            bindings::free_irq(self.irq, self.cookie);
            bindings::pci_free_irq_vectors(raw(&self.pdev));
            drop(Arc::<T>::from_foreign(self.cookie.cast()));
        }
    }
}

/// # Safety
///
/// Called by the kernel with the cookie of an [`Irq`] with a handler of this type.
unsafe extern "C" fn thread_fn<T: Handler>(
    _irq: i32,
    cookie: *mut c_void,
) -> bindings::irqreturn_t {
    // SAFETY: `cookie` came from `into_foreign()` and stays valid until `free_irq()` returned.
    let handler = unsafe { Arc::<T>::borrow(cookie.cast()) };
    handler.handle();
    bindings::irqreturn::IRQ_HANDLED
}
