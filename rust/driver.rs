// SPDX-License-Identifier: GPL-2.0

//! PCI driver: device table, probe and remove, suspend and bus reset.
//!
//! amdgpu claims the same PCI class; [`crate::compat`] ensures that only one of the two is loaded.

use kernel::{
    device::Core,
    pci,
    prelude::*,
    sync::Arc, //
};

use crate::{
    drm,
    gpu::Gpu,
    kapi::{
        self,
        pci_driver::Hooks,
        vma,
        workqueue::Delayed, //
    },
    monitor,
    node::{self, NodeSet},
    partition::{self, Partitions},
    process,
    recovery::Recovery,
};

/// The PCI driver.
pub(crate) struct Driver;

/// Entry of the device table: a supported card.
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

/// Driver data of a bound device.
#[pin_data]
pub(crate) struct Bound {
    up: Up,
}

/// A device, as far as it was brought up. Taken down on drop.
struct Up {
    gpu: Arc<Gpu>,
    nodes: Arc<NodeSet>,
    render: Option<drm::RenderNodes>,
    recovery: Option<Arc<Delayed<Recovery>>>,
    partitions: Option<Arc<Partitions>>,
    files: Option<partition::Files>,
    monitor: Option<monitor::Files>,
}

impl Drop for Up {
    fn drop(&mut self) {
        // Waits for writers, which need everything else.
        let files = self.files.take();
        drop(files);
        let monitor = self.monitor.take();
        drop(monitor);
        if let Some(recovery) = self.recovery.take() {
            recovery.end();
        }
        // What follows does not wait for a card that has left the bus.
        if !kapi::pci::is_present(self.gpu.card().pdev()) {
            self.gpu.wedge("it has left the bus");
        }
        // After the last reset of this binding, which would switch the mode already.
        if let Some(partitions) = &self.partitions {
            partitions.request_memory_mode();
        }
        // No new users after this.
        let listed = self.partitions.take();
        drop(listed);
        // Waits for ioctls of the render nodes, zaps their mappings.
        let render = self.render.take();
        drop(render);
        process::detach_gpu(&self.gpu);
        self.gpu.end_migration();
        // Engines that did not stop are halted next.
        let _ = self.nodes.end();
        self.gpu.stop();
        // CPU mappings of BARs fault after this.
        vma::zap_all();
    }
}

impl Up {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let gpu = Gpu::new(pdev, &process::SINK, node::make_card_id)?;
        let mut up = Up {
            nodes: NodeSet::new(&gpu)?,
            gpu,
            render: None,
            recovery: None,
            partitions: None,
            files: None,
            monitor: None,
        };
        up.gpu.start(pdev)?;
        let mode = up.gpu.initial_mode()?;
        up.nodes.start(mode)?;
        let recovery = up.recovery.insert(Recovery::start(&up.nodes)?);
        let partitions = Partitions::new(&up.nodes, mode, recovery)?;
        let partitions = up.partitions.insert(partitions);
        let render = up.render.insert(drm::RenderNodes::register(&up.nodes)?);
        partitions.publish(render.list()?)?;
        up.files = Some(partition::Files::new(partitions)?);
        match monitor::Files::new(&up.gpu) {
            Ok(files) => up.monitor = Some(files),
            // The GPU works without them.
            Err(e) => dev_warn!(pdev, "no files for monitoring: {e:?}\n"),
        }
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
                config.core().cu_total,
                config.num_sdma,
                config.vram_size >> 20
            );
            Ok(try_pin_init!(Bound { up }))
        })
    }

    fn unbind<'bound>(pdev: &'bound pci::Device<Core<'_>>, this: Pin<&Self::Data<'bound>>) {
        dev_dbg!(pdev, "GPU {:#x}: unbinding\n", this.up.gpu.id());
    }
}

#[vtable]
impl Hooks for Driver {
    fn suspend(this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        let nodes = &this.up.nodes;
        let recovery = this.up.recovery.as_ref();
        if let Some(recovery) = recovery {
            recovery.sleep();
        }
        nodes.stop().and_then(|()| gpu.suspend()).inspect_err(|_| {
            // Suspend was aborted: map the queues again.
            if let Err(e) = nodes.restart() {
                dev_err!(gpu.dev(), "queues were not mapped again: {e:?}\n");
            }
            if let Some(recovery) = recovery {
                Recovery::wake(recovery);
            }
        })
    }

    fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        let back = if gpu.is_hung() {
            Ok(())
        } else {
            gpu.resume(pdev)
                .and_then(|()| this.up.nodes.restart())
                .inspect_err(|_| {
                    gpu.wedge("resume failed");
                })
        };
        if let Some(recovery) = &this.up.recovery {
            Recovery::wake(recovery);
        }
        back
    }

    fn reset_prepare(this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.prepare();
        }
    }

    fn reset_done(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.done(pdev);
        }
    }
}
