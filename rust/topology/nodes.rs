// SPDX-License-Identifier: GPL-2.0

//! Builds the nodes of the topology from NUMA nodes and GPUs, and the links between them.

use kernel::{prelude::*, sync::Arc};
use rkfd_abi::psp::ras_block;

use super::{
    cache,
    node::{link_flags, Bank, GpuLines, Heap, Lines, Link, Node},
};
use crate::{
    asic::{bytes::array_at, xcc::MAX_XCCS},
    gpu::Gpu,
    hw::smu::{Clock, SmuFacts},
    kapi::{dmi, numa, pci},
    node, uapi,
};

/// A GPU of the topology.
pub(super) struct TopologyGpu {
    /// The node of the GPU.
    pub(super) node: Arc<node::Node>,
    /// Minor number of the render node.
    pub(super) render_minor: u32,
    /// Id of its first compute unit. Ids of removed GPUs are not reused.
    pub(super) first_cu: u32,
}

/// Returns the NUMA nodes that have processors, which are the first nodes of the topology.
fn cpu_nodes() -> impl Iterator<Item = numa::Node> {
    numa::nodes().filter(|n| n.cpus() > 0)
}

/// Returns all nodes, those of processors first.
pub(super) fn build(gpus: &[TopologyGpu]) -> Result<KVec<Arc<Node>>> {
    let mut nodes: KVec<Node> = KVec::new();
    for (index, numa) in cpu_nodes().enumerate() {
        nodes.push(cpu(u32::try_from(index)?, numa)?, GFP_KERNEL)?;
    }
    let cpus = nodes.len();
    for listed in gpus {
        let index = u32::try_from(nodes.len())?;
        let home = home_of(listed.node.gpu());
        let link = link(&listed.node, index, u32::try_from(home)?);
        let mut node = gpu(listed, link.to_cpu)?;
        // Partitions of a card are linked with each other.
        for ((peer_index, peer), sibling) in (0u32..).zip(&mut nodes).skip(cpus).zip(gpus) {
            if sibling.node.is_of(listed.node.gpu()) {
                let engines = listed.node.sdma();
                node.io_links.push(
                    Link::between_partitions(index, peer_index, engines),
                    GFP_KERNEL,
                )?;
                peer.io_links.push(
                    Link::between_partitions(peer_index, index, engines),
                    GFP_KERNEL,
                )?;
            }
        }
        add_indirect_links(&link, &mut node, (index, home), &mut nodes[..cpus])?;
        nodes.push(node, GFP_KERNEL)?;
        if let (Some(back), Some(node)) = (link.to_gpu, nodes[..cpus].get_mut(home)) {
            node.io_links.push(back, GFP_KERNEL)?;
        }
    }
    let mut out = KVec::with_capacity(nodes.len(), GFP_KERNEL)?;
    for node in nodes {
        out.push(Arc::new(node, GFP_KERNEL)?, GFP_KERNEL)?;
    }
    Ok(out)
}

/// Adds the links between a GPU, which has `link` to its NUMA node, and the other NUMA nodes to
/// both. The indices are that of the GPU, and of its NUMA node.
fn add_indirect_links(
    link: &Links,
    gpu: &mut Node,
    (index, home): (u32, usize),
    cpus: &mut [Node],
) -> Result {
    let Some(near) = cpu_nodes().nth(home) else {
        return Ok(());
    };
    for ((at, numa), cpu) in (0u32..).zip(cpu_nodes()).zip(cpus) {
        if numa == near {
            continue;
        }
        let distance = numa.distance(near);
        let there = link.to_cpu.beyond_cpu(index, at, distance);
        gpu.p2p_links.push(there, GFP_KERNEL)?;
        if let Some(to_gpu) = &link.to_gpu {
            let back = to_gpu.beyond_cpu(at, index, distance);
            cpu.p2p_links.push(back, GFP_KERNEL)?;
        }
    }
    Ok(())
}

/// Returns the index of the NUMA node that a GPU belongs to; 0 if unknown.
fn home_of(gpu: &Gpu) -> usize {
    let near = numa::of_device(gpu.dev());
    cpu_nodes().position(|n| Some(n) == near).unwrap_or(0)
}

/// Returns the node of a NUMA node.
fn cpu(index: u32, numa: numa::Node) -> Result<Node> {
    let mut bank = Bank {
        heap: Heap::System,
        size: numa.bytes(),
        width: 0,
        clock_max: 0,
    };
    // As in the C driver, only the first node has what SMBIOS knows.
    if index == 0 {
        set_memory_properties(&mut bank);
    }
    let mut banks = KVec::new();
    banks.push(bank, GFP_KERNEL)?;
    let mut io_links = KVec::new();
    for (other, peer) in cpu_nodes().enumerate() {
        if peer != numa {
            let link = Link::between_cpus(index, u32::try_from(other)?, numa.distance(peer));
            io_links.push(link, GFP_KERNEL)?;
        }
    }
    Ok(Node {
        gpu_id: 0,
        name: "",
        lines: Lines {
            cpu_cores_count: numa.cpus(),
            cpu_core_id_base: numa.first_apic_id().unwrap_or(0),
            ..Lines::default()
        },
        gpu_lines: None,
        banks,
        caches: KVec::new(),
        io_links,
        p2p_links: KVec::new(),
    })
}

/// Sets width and clock of a bank of memory to those of the last memory device of SMBIOS that has
/// them (`find_system_memory`).
fn set_memory_properties(bank: &mut Bank) {
    /// `DMI_ENTRY_MEM_DEVICE`.
    const MEMORY_DEVICE: u8 = 17;
    /// Size of `struct dmi_mem_device`, and the offsets of its fields.
    const BYTES: usize = 23;
    const TOTAL_WIDTH: usize = 8;
    const SPEED: usize = 21;
    const UNKNOWN_WIDTH: u32 = 0xffff;

    dmi::for_each(|record| {
        if record.first() != Some(&MEMORY_DEVICE) || record.len() < BYTES {
            return;
        }
        let word = |at| u32::from(array_at(record, at).map_or(0, u16::from_le_bytes));
        match word(TOTAL_WIDTH) {
            0 | UNKNOWN_WIDTH => {}
            width => bank.width = width,
        }
        match word(SPEED) {
            0 => {}
            speed => bank.clock_max = speed,
        }
    });
}

/// Both directions of the link between a GPU and its NUMA node.
struct Links {
    to_cpu: Link,
    /// Only if the CPU can access all VRAM.
    to_gpu: Option<Link>,
}

/// Returns the links between the GPU at node `from` and the NUMA node at `to`.
fn link(node: &node::Node, from: u32, to: u32) -> Links {
    let gpu = node.gpu();
    let bandwidth = pci::link(gpu.pdev()).mbytes;
    let no_atomics = |supported: bool| {
        if supported {
            0
        } else {
            link_flags::NO_ATOMICS_32 | link_flags::NO_ATOMICS_64
        }
    };
    let flags = link_flags::ENABLED | no_atomics(gpu.config().pci_atomics);
    let mut to_cpu = Link::pcie(from, to, bandwidth, flags);
    let flags = link_flags::ENABLED
        | link_flags::NON_COHERENT
        | no_atomics(pci::completes_atomics(gpu.pdev()));
    let mut to_gpu = large_bar(gpu).then(|| Link::pcie(to, from, bandwidth, flags));
    if let Some(to_gpu) = &mut to_gpu {
        // The C driver recommends engines only if both directions exist
        // (`kfd_set_recommended_sdma_engines`).
        to_gpu.sdma_engines = node.sdma().pcie_mask();
        to_cpu.sdma_engines = to_gpu.sdma_engines;
    }
    Links { to_cpu, to_gpu }
}

/// Returns whether the CPU can access all VRAM.
fn large_bar(gpu: &Gpu) -> bool {
    let config = gpu.config();
    config.vram_visible >= config.vram_size
}

/// Returns the capability bits `HSA_CAP_*` of a card with RAS in these blocks.
fn capability(rev_id: u32, debug: u32, ras_blocks: u32) -> u32 {
    let has = |block: u32, capability| {
        if ras_blocks >> block & 1 != 0 {
            capability
        } else {
            0
        }
    };
    let ras = has(ras_block::GFX, uapi::HSA_CAP_SRAM_EDCSUPPORTED)
        | has(ras_block::UMC, uapi::HSA_CAP_MEM_EDCSUPPORTED)
        | if ras_blocks != 0 {
            uapi::HSA_CAP_RASEVENTNOTIFY
        } else {
            0
        };
    let doorbell = uapi::HSA_CAP_DOORBELL_TYPE_2_0 << uapi::HSA_CAP_DOORBELL_TYPE_TOTALBITS_SHIFT;
    let revision = rev_id << uapi::HSA_CAP_ASIC_REVISION_SHIFT & uapi::HSA_CAP_ASIC_REVISION_MASK;
    // Exceptions reach the runtime through its trap handler or the packet processor.
    doorbell
        | revision
        | debug
        | ras
        | uapi::HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED
        | uapi::HSA_CAP_PER_QUEUE_RESET_SUPPORTED
        | uapi::HSA_CAP_SVMAPI_SUPPORTED
}

/// Returns a clock in MHz; if unknown, the value that the C driver reports without power
/// management.
fn mhz_or_default(mhz: u32) -> u32 {
    const UNKNOWN: u32 = 100;
    if mhz == 0 {
        UNKNOWN
    } else {
        mhz
    }
}

/// Returns the serial number of a node: that of its first XCC if the card has several nodes and
/// firmware reports it, or that of the package (`__amdgpu_xcp_set_unique_id`).
fn unique_id(node: &node::Node, power: &SmuFacts) -> u64 {
    let of_xcc = power.xcc_serials[usize::from(node.xccs().first().physical) % MAX_XCCS];
    if node.count() > 1 && of_xcc != 0 {
        of_xcc
    } else {
        power.serial
    }
}

/// Returns the id of the xGMI hive, or that of the partitions of a card in none (`kfd_device.c`,
/// `kgd2kfd_device_init`); 0 for a node alone.
fn hive_id(node: &node::Node) -> u64 {
    let gpu = node.gpu();
    match gpu.psp().hive_id() {
        0 if node.count() > 1 => gpu.config().pci.bdf.into(),
        id => id,
    }
}

/// Returns the node of a GPU.
fn gpu(listed: &TopologyGpu, link: Link) -> Result<Node> {
    let gpu = listed.node.gpu();
    let xccs = listed.node.xccs();
    let config = gpu.config();
    let caps = gpu.generation().caps;
    let cwsr = listed.node.cwsr()?;
    let power = gpu.smu_facts();

    let mut banks = KVec::new();
    banks.push(
        Bank {
            heap: if large_bar(gpu) {
                Heap::FbPublic
            } else {
                Heap::FbPrivate
            },
            size: listed.node.memory().size(),
            width: caps.vram_width,
            clock_max: mhz_or_default(power.levels(Clock::Memory).range().1),
        },
        GFP_KERNEL,
    )?;
    let mut io_links = KVec::new();
    io_links.push(link, GFP_KERNEL)?;

    let lines = Lines {
        simd_count: listed.node.simd_count(),
        simd_id_base: listed.first_cu,
        max_waves_per_simd: config.waves_per_simd,
        lds_size_in_kb: config.lds_bytes / 1024,
        num_gws: config.num_gws,
        wave_front_size: config.wave_size,
        array_count: config.num_se * config.sh_per_se * xccs.count(),
        simd_arrays_per_engine: config.sh_per_se,
        cu_per_simd_array: config.cu_per_sh,
        simd_per_cu: config.simd_per_cu,
        max_slots_scratch_cu: config.scratch_slots_per_cu,
        gfx_target_version: config.gfx_target_version,
        vendor_id: config.pci.vendor.into(),
        device_id: config.pci.device.into(),
        location_id: u32::from(config.pci.bdf) | listed.node.index(),
        hive_id: hive_id(&listed.node),
        domain: config.pci.domain,
        drm_render_minor: listed.render_minor,
        num_sdma_engines: listed.node.sdma().pcie,
        num_sdma_xgmi_engines: listed.node.sdma().count - listed.node.sdma().pcie,
        num_sdma_queues_per_engine: config.sdma_queues_per_engine - caps.sdma_reserved_queues,
        num_cp_queues: config.num_cp_queues,
        cwsr_size: cwsr.total,
        ctl_stack_size: cwsr.ctl_stack,
        ..Lines::default()
    };
    let gpu_lines = GpuLines {
        max_engine_clk_fcompute: mhz_or_default(power.levels(Clock::Engine).range().1),
        fw_version: config.mec_fw,
        capability: capability(config.rev_id, caps.debug_capability, config.ras_blocks),
        capability2: if gpu.smu_resets_sdma_queues() {
            uapi::HSA_CAP2_PER_SDMA_QUEUE_RESET_SUPPORTED
        } else {
            0
        },
        debug_prop: caps.debug_prop,
        // 16 bits in `struct kfd_dev` (`kfd_priv.h`).
        sdma_fw_version: config.sdma_fw & 0xffff,
        unique_id: unique_id(&listed.node, &power),
        num_xcc: xccs.count(),
    };
    let nps = gpu.nps().and_then(|modes| modes.current);
    Ok(Node {
        gpu_id: listed.node.id(),
        // The name of all devices with a discovery table in the C driver (`amdgpu_asic_name`).
        name: "ip discovery",
        lines,
        gpu_lines: Some(gpu_lines),
        banks,
        caches: cache::list(config, xccs, listed.first_cu, nps)?,
        io_links,
        p2p_links: KVec::new(),
    })
}
