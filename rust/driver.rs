// SPDX-License-Identifier: GPL-2.0

//! PCI glue: which devices, and the order in which a GPU and everything above it comes up and
//! goes down.
//!
//! The kernel's amdgpu claims the same class of devices; [`crate::compat`] sees to it that only one of
//! the two is loaded.

use kernel::{
    device::Core,
    pci,
    prelude::*,
    sync::Arc, //
};

use crate::{
    dqm, drm,
    gpu::Gpu,
    kapi::{pci_driver::Hooks, vma},
    process,
    recovery::Recovery,
    topology,
};

/// The driver.
pub(crate) struct Driver;

/// The identity of a supported card.
pub(crate) struct Card {
    name: &'static str,
}

kernel::pci_device_table!(
    PCI_TABLE,
    <Driver as pci::Driver>::IdInfo,
    [
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, 0x74a0),
            Card { name: "MI300A" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, 0x74a1),
            Card { name: "MI300X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, 0x74a2),
            Card { name: "MI308X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, 0x74a5),
            Card { name: "MI325X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, 0x7550),
            Card {
                name: "Radeon RX 9070"
            }
        ),
    ]
);

/// What a bound device holds.
#[pin_data]
pub(crate) struct Bound {
    up: Up,
}

/// A GPU that was brought up, as far as it got. Dropping it takes the GPU down.
struct Up {
    gpu: Arc<Gpu>,
    node: Option<drm::Node>,
    recovery: Option<Arc<Recovery>>,
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(recovery) = self.recovery.take() {
            recovery.end();
        }
        // Nobody new finds it.
        topology::remove_gpu(&self.gpu);
        self.gpu.withdraw();
        // Ioctls of the render node end, its mappings are emptied.
        let node = self.node.take();
        drop(node);
        process::gpu_gone(&self.gpu);
        if let Err(e) = dqm::stop(&self.gpu) {
            dev_err!(self.gpu.dev(), "queues did not stop: {e:?}\n");
        }
        self.gpu.stop();
        // Whoever maps registers faults from now on, and learns that they are gone.
        vma::zap_all();
    }
}

impl Up {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let mut up = Up {
            gpu: Gpu::new(pdev)?,
            node: None,
            recovery: None,
        };
        up.gpu.start(pdev)?;
        dqm::start(&up.gpu)?;
        up.recovery = Some(Recovery::start(&up.gpu)?);
        up.gpu.publish()?;
        let node = up.node.insert(drm::Node::register(&up.gpu)?);
        topology::add_gpu(&up.gpu, node.minor())?;
        Ok(up)
    }
}

impl pci::Driver for Driver {
    type IdInfo = Card;
    type Data<'bound> = Bound;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        card: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        pin_init::pin_init_scope(move || {
            pdev.enable_device_mem()?;
            pdev.set_master();
            let up = Up::new(pdev).inspect_err(|e| dev_err!(pdev, "probe failed: {e:?}\n"))?;
            let config = up.gpu.config();
            dev_info!(
                pdev,
                "{} ({}): GPU {:#x}, {} CUs, {} SDMA engines, {} MiB VRAM\n",
                card.map_or("GPU", |c| c.name),
                up.gpu.generation().name,
                up.gpu.id(),
                config.cu_total,
                config.num_sdma,
                config.vram_size >> 20
            );
            Ok(try_pin_init!(Bound { up }))
        })
    }

    fn unbind<'bound>(pdev: &'bound pci::Device<Core<'_>>, this: Pin<&Self::Data<'bound>>) {
        dev_dbg!(pdev, "GPU {:#x} leaves\n", this.up.gpu.id());
    }
}

#[vtable]
impl Hooks for Driver {
    fn suspend(this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        gpu.check_suspend()?;
        let recovery = this.up.recovery.as_ref();
        if let Some(recovery) = recovery {
            recovery.sleep();
        }
        dqm::stop(gpu)
            .and_then(|()| gpu.suspend())
            .inspect_err(|_| {
                // The machine stays awake, and so do the queues.
                if let Err(e) = dqm::restart(gpu) {
                    dev_err!(gpu.dev(), "queues did not come back: {e:?}\n");
                }
                if let Some(recovery) = recovery {
                    recovery.wake();
                }
            })
    }

    fn resume(this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        let back = if gpu.is_hung() {
            Ok(())
        } else {
            gpu.resume()
                .and_then(|()| dqm::restart(gpu))
                .inspect_err(|_| {
                    gpu.declare_hung("queues did not come back from a suspend");
                })
        };
        if let Some(recovery) = &this.up.recovery {
            recovery.wake();
        }
        back
    }

    fn reset_prepare(this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.prepare();
        }
    }

    fn reset_done(this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.done();
        }
    }
}
