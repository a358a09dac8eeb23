// SPDX-License-Identifier: GPL-2.0

//! `INFO`: queries about the device.

use kernel::{page::PAGE_SIZE, prelude::*, sizes::*, transmute::AsBytes};

use crate::{
    asic::vbios::Vbios,
    card::account,
    drm::{
        ctx::{DMA_MAX_IBS, DMA_RINGS},
        file::{FileData, Render},
        userq,
    },
    gpu::Gpu,
    hw::{
        psp::Release,
        smu::{Clock, Sensor},
    },
    kapi::{
        cpufeature,
        drm::{Device, File, Handler},
        pci, uaccess,
    },
    mmu::addresses,
    uapi,
};

/// `INFO`.
pub(super) struct Info;

impl Handler<Render> for Info {
    type Arg = uapi::drm_amdgpu_info;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_INFO;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let gpu = file.data().gpu()?;
        let out = Out {
            ptr: arg.return_pointer,
            size: usize::try_from(arg.return_size)?,
        };
        if out.size == 0 || out.ptr == 0 {
            return Err(EINVAL);
        }
        match arg.query {
            uapi::AMDGPU_INFO_ACCEL_WORKING => out.put(&u32::from(!gpu.health().is_dead())),
            uapi::AMDGPU_INFO_DEV_INFO => out.put(&device(gpu)),
            uapi::AMDGPU_INFO_HW_IP_COUNT => {
                out.put(&ip_count(file.data(), uapi::info_hw_ip(arg).type_)?)
            }
            uapi::AMDGPU_INFO_HW_IP_INFO => ip_info(gpu, arg, &out),
            uapi::AMDGPU_INFO_READ_MMR_REG => read_registers(gpu, arg, &out),
            uapi::AMDGPU_INFO_MEMORY => out.put(&memory(gpu)),
            uapi::AMDGPU_INFO_VRAM_GTT => out.put(&vram_gtt(gpu)),
            uapi::AMDGPU_INFO_VRAM_USAGE | uapi::AMDGPU_INFO_VIS_VRAM_USAGE => {
                out.put(&gpu.vram().used_or_reserved())
            }
            uapi::AMDGPU_INFO_GTT_USAGE => out.put(&gpu.gtt_used()),
            uapi::AMDGPU_INFO_FW_VERSION => out.put(&firmware(gpu, arg)?),
            uapi::AMDGPU_INFO_TIMESTAMP => out.put(&gpu.clock_counter()?),
            uapi::AMDGPU_INFO_NUM_BYTES_MOVED => out.put(&gpu.lru().bytes_moved()),
            uapi::AMDGPU_INFO_NUM_EVICTIONS => out.put(&gpu.lru().evictions()),
            uapi::AMDGPU_INFO_VRAM_LOST_COUNTER => out.put(&gpu.health().resets()),
            uapi::AMDGPU_INFO_GDS_CONFIG => out.put(&sharing(gpu)),
            uapi::AMDGPU_INFO_MAX_IBS => out.put(&max_ibs()),
            // No such engine.
            uapi::AMDGPU_INFO_VCE_CLOCK_TABLE => {
                out.put(&uapi::drm_amdgpu_info_vce_clock_table::default())
            }
            uapi::AMDGPU_INFO_NUM_HANDLES
                if uapi::info_hw_ip(arg).type_ == uapi::AMDGPU_HW_IP_UVD =>
            {
                Err(ENODATA)
            }
            uapi::AMDGPU_INFO_VBIOS => vbios(gpu, arg, &out),
            uapi::AMDGPU_INFO_SENSOR => out.put(&sensor(gpu, uapi::info_sensor(arg).type_)?),
            uapi::AMDGPU_INFO_UQ_FW_AREAS => {
                out.put(&queue_area(gpu, uapi::info_hw_ip(arg).type_)?)
            }
            _ => Err(EINVAL),
        }
    }
}

/// The buffer of user space for the result.
struct Out {
    /// User address.
    ptr: u64,
    /// Bytes.
    size: usize,
}

impl Out {
    /// Writes the result, truncated to the size of the buffer. `EFAULT` if it is not writable.
    fn put<T: AsBytes>(&self, value: &T) -> Result {
        self.put_bytes(value.as_bytes())
    }

    fn put_bytes(&self, bytes: &[u8]) -> Result {
        uaccess::write(self.ptr, &bytes[..bytes.len().min(self.size)])
    }
}

/// `max_hw_contexts` of all generations.
const HW_CONTEXTS: u32 = 8;
/// The device is passed through to a virtual machine.
const MODE_PASSED_THROUGH: u64 =
    (uapi::AMDGPU_IDS_FLAGS_MODE_PT << uapi::AMDGPU_IDS_FLAGS_MODE_SHIFT) as u64;

/// Returns the result of `DEV_INFO`.
fn device(gpu: &Gpu) -> uapi::drm_amdgpu_info_device {
    let config = gpu.config();
    let caps = gpu.generation().caps;
    let caches = &config.caches;
    let power = gpu.smu_facts();
    let engine_mhz = power.levels(Clock::Engine).range();
    let memory_mhz = power.levels(Clock::Memory).range();
    let link = pci::link(gpu.pdev());
    let mut info = uapi::drm_amdgpu_info_device {
        device_id: config.pci.device.into(),
        chip_rev: config.rev_id,
        external_rev: caps.external_rev + config.rev_id,
        pci_rev: config.pci.revision.into(),
        family: caps.drm_family,
        num_shader_engines: config.num_se,
        num_shader_arrays_per_engine: config.sh_per_se,
        gpu_counter_freq: (caps.clock_hz / 1000) as u32,
        min_engine_clock: u64::from(engine_mhz.0) * 1000,
        max_engine_clock: u64::from(engine_mhz.1) * 1000,
        min_memory_clock: u64::from(memory_mhz.0) * 1000,
        max_memory_clock: u64::from(memory_mhz.1) * 1000,
        cu_active_number: config.core().cu_total,
        num_hw_gfx_contexts: HW_CONTEXTS,
        pcie_gen: link.generation,
        pcie_num_lanes: link.lanes,
        ids_flags: if cpufeature::in_guest() {
            MODE_PASSED_THROUGH
        } else {
            0
        },
        num_shader_visible_vgprs: config.vgprs,
        virtual_address_offset: addresses::LOW.start,
        virtual_address_max: addresses::LOW.end,
        virtual_address_alignment: PAGE_SIZE as u32,
        pte_fragment_size: SZ_2M as u32,
        gart_page_size: PAGE_SIZE as u32,
        vram_type: (caps.vram_type)(config.pci.device),
        vram_bit_width: caps.vram_width,
        wave_front_size: config.wave_size,
        num_cu_per_sh: config.cu_per_sh,
        num_tcc_blocks: caches.tcc_channels,
        high_va_offset: addresses::HIGH.start,
        high_va_max: addresses::HIGH.end,
        tcp_cache_size: caches.tcp_kib,
        num_sqc_per_wgp: caches.sqc_per_wgp,
        sqc_data_cache_size: caches.sqc_data_kib,
        sqc_inst_cache_size: caches.sqc_inst_kib,
        gl2c_cache_size: caches.tcc_kib,
        userq_ip_mask: userq::ip_mask(gpu),
        mall_size: u64::from(caches.mall_kib) * 1024,
        ..uapi::drm_amdgpu_info_device::default()
    };
    let sh_per_se = config.sh_per_se.max(1) as usize;
    for (array, &map) in config.core().cu_bitmap.iter().enumerate() {
        let slot = info.cu_bitmap.get_mut(array / sh_per_se);
        if let Some(word) = slot.and_then(|se| se.get_mut(array % sh_per_se)) {
            *word = map;
        }
    }
    info
}

/// Returns the number of instances of an IP block type in the partition of the file. Without one
/// the graphics core counts as one instance. `EINVAL` for types that the device lacks.
fn ip_count(file: &FileData, kind: u32) -> Result<u32> {
    let instances = file.partition.instances();
    let (xccs, sdma) = instances.unwrap_or((1, file.gpu()?.config().num_sdma));
    match kind {
        uapi::AMDGPU_HW_IP_GFX | uapi::AMDGPU_HW_IP_COMPUTE => Ok(xccs),
        uapi::AMDGPU_HW_IP_DMA => Ok(sdma),
        _ => Err(EINVAL),
    }
}

/// Returns the bitmap of the rings that user space may submit to: none of graphics and compute.
fn rings(gpu: &Gpu, kind: u32) -> u32 {
    let engines = match kind {
        uapi::AMDGPU_HW_IP_DMA => gpu.config().num_sdma,
        _ => 0,
    };
    (1 << engines.min(DMA_RINGS as u32)) - 1
}

/// Returns the number of hardware queues that user queues of the render node share with those of
/// `/dev/kfd`.
fn queue_slots(gpu: &Gpu, kind: u32) -> u32 {
    let caps = gpu.generation().caps;
    if userq::ip_mask(gpu) == 0 {
        return 0;
    }
    match kind {
        uapi::AMDGPU_HW_IP_COMPUTE => {
            caps.pipes_per_mec * (caps.queues_per_pipe - caps.kernel_queues_per_pipe)
        }
        uapi::AMDGPU_HW_IP_DMA => {
            gpu.config().num_sdma * (caps.sdma_queues_per_engine - caps.sdma_reserved_queues)
        }
        _ => 0,
    }
}

/// Returns the result of `UQ_FW_AREAS`: size and alignment of the memory that the firmware needs of
/// a user queue. `EOPNOTSUPP` without such queues, `EINVAL` for other IP types.
fn queue_area(gpu: &Gpu, kind: u32) -> Result<[u32; 4]> {
    let has = gpu.generation().caps.user_queues.is_some();
    match kind {
        uapi::AMDGPU_HW_IP_COMPUTE if has => Ok([userq::EOP_BYTES, userq::EOP_ALIGN, 0, 0]),
        uapi::AMDGPU_HW_IP_DMA if has => Ok([SDMA_CSA_BYTES, SDMA_CSA_ALIGN, 0, 0]),
        ..=uapi::AMDGPU_HW_IP_DMA => Err(EOPNOTSUPP),
        _ => Err(EINVAL),
    }
}

/// Context save area of an SDMA queue (`sdma_v7_0_get_csa_info`).
const SDMA_CSA_BYTES: u32 = 32;
const SDMA_CSA_ALIGN: u32 = 4;

/// Writes the result of `HW_IP_INFO`. Start and size alignment of IBs are in bytes.
fn ip_info(gpu: &Gpu, arg: &uapi::drm_amdgpu_info, out: &Out) -> Result {
    let kind = uapi::info_hw_ip(arg).type_;
    if uapi::info_hw_ip(arg).ip_instance >= uapi::AMDGPU_HW_IP_INSTANCE_MAX_COUNT {
        return Err(EINVAL);
    }
    let (version, start, size) = match kind {
        uapi::AMDGPU_HW_IP_GFX | uapi::AMDGPU_HW_IP_COMPUTE => (gpu.config().gc, 32, 32),
        uapi::AMDGPU_HW_IP_DMA => (gpu.config().sdma, 256, 4),
        uapi::AMDGPU_HW_IP_NUM.. => return Err(EINVAL),
        // The device lacks the block.
        _ => return out.put_bytes(&uapi::hw_ip_bytes(&uapi::drm_amdgpu_info_hw_ip::default())),
    };
    let info = uapi::drm_amdgpu_info_hw_ip {
        hw_ip_version_major: version.major.into(),
        hw_ip_version_minor: version.minor.into(),
        ib_start_alignment: start,
        ib_size_alignment: size,
        available_rings: rings(gpu, kind),
        userq_num_slots: queue_slots(gpu, kind),
        ip_discovery_version: u32::from(version.major) << 16
            | u32::from(version.minor) << 8
            | u32::from(version.rev),
        ..uapi::drm_amdgpu_info_hw_ip::default()
    };
    out.put_bytes(&uapi::hw_ip_bytes(&info))
}

/// Writes the result of `READ_MMR_REG`. `EINVAL` for an engine or array that no GPU has, or too
/// many registers, `EFAULT` for registers that user space may not read, as in the C driver.
fn read_registers(gpu: &Gpu, arg: &uapi::drm_amdgpu_info, out: &Out) -> Result {
    let input = uapi::info_read_mmr_reg(arg);
    let index = |shift: u32, mask: u32, count: u32| {
        let value = input.instance >> shift & mask;
        value == mask || value < count
    };
    if !index(
        uapi::AMDGPU_INFO_MMR_SE_INDEX_SHIFT,
        uapi::AMDGPU_INFO_MMR_SE_INDEX_MASK,
        MAX_SE,
    ) || !index(
        uapi::AMDGPU_INFO_MMR_SH_INDEX_SHIFT,
        uapi::AMDGPU_INFO_MMR_SH_INDEX_MASK,
        MAX_SH_PER_SE,
    ) || input.count > MAX_REGISTERS
    {
        return Err(EINVAL);
    }
    let mut values = KVec::with_capacity(usize::try_from(input.count)? * 4, GFP_KERNEL)?;
    for n in 0..input.count {
        let offset = input.dword_offset.wrapping_add(n);
        let value = gpu.user_register(offset)?.ok_or(EFAULT)?;
        values.extend_from_slice(&value.to_ne_bytes(), GFP_KERNEL)?;
    }
    out.put_bytes(&values)
}

/// Limits of `READ_MMR_REG` (`AMDGPU_GFX_MAX_SE`, `AMDGPU_GFX_MAX_SH_PER_SE`, `amdgpu_info_ioctl`).
const MAX_SE: u32 = 4;
const MAX_SH_PER_SE: u32 = 2;
const MAX_REGISTERS: u32 = 128;

/// Returns the description of a heap; all arguments are in bytes.
fn heap(total: u64, usable: u64, used: u64) -> uapi::drm_amdgpu_heap_info {
    uapi::drm_amdgpu_heap_info {
        total_heap_size: total,
        usable_heap_size: usable,
        heap_usage: used,
        max_allocation: usable / 4 * 3,
    }
}

/// Returns the result of `MEMORY`.
fn memory(gpu: &Gpu) -> uapi::drm_amdgpu_memory_info {
    let vram = gpu.vram();
    let gtt = account::gtt_limit();
    let (visible, used) = (vram.visible(), vram.used_or_reserved());
    uapi::drm_amdgpu_memory_info {
        vram: heap(vram.size(), vram.usable(), used),
        cpu_accessible_vram: heap(visible, visible.min(vram.usable()), used.min(visible)),
        gtt: heap(gtt, gtt, gpu.gtt_used()),
    }
}

/// Returns the result of `GDS_CONFIG`: the hardware has no global data share, but global wave sync.
fn sharing(gpu: &Gpu) -> uapi::drm_amdgpu_info_gds {
    uapi::drm_amdgpu_info_gds {
        gws_per_compute_partition: gpu.config().num_gws,
        ..uapi::drm_amdgpu_info_gds::default()
    }
}

/// Returns the value of a sensor: MHz, percent or whole W. `ENOENT` on a GPU whose SMU is not
/// managed, `EINVAL` for sensors that it does not have and for all errors of the SMU.
fn sensor(gpu: &Gpu, kind: u32) -> Result<u32> {
    let smu = gpu.smu().ok_or(ENOENT)?;
    let facts = smu.facts();
    let (engine, memory) = (facts.levels(Clock::Engine), facts.levels(Clock::Memory));
    let sensor = match kind {
        uapi::AMDGPU_INFO_SENSOR_GFX_SCLK => Sensor::Clock(Clock::Engine),
        uapi::AMDGPU_INFO_SENSOR_GFX_MCLK => Sensor::Clock(Clock::Memory),
        uapi::AMDGPU_INFO_SENSOR_GPU_LOAD => Sensor::Load,
        // The average is that of the last sample.
        uapi::AMDGPU_INFO_SENSOR_GPU_AVG_POWER | uapi::AMDGPU_INFO_SENSOR_GPU_INPUT_POWER => {
            Sensor::Power
        }
        // The shader clock has no levels between the lowest and the highest one, so that the
        // lowest ones are the stable state (`smu_v13_0_6_populate_umd_state_clk`).
        uapi::AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_SCLK => return Ok(engine.range().0),
        uapi::AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_MCLK => return Ok(memory.range().0),
        uapi::AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK => return Ok(engine.range().1),
        uapi::AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK => return Ok(memory.range().1),
        _ => return Err(EINVAL),
    };
    let value = smu.sensor(gpu.mmio()?, sensor).map_err(|_| EINVAL)?;
    Ok(if sensor == Sensor::Power {
        value / 1000
    } else {
        value
    })
}

/// Returns the result of `VRAM_GTT`.
fn vram_gtt(gpu: &Gpu) -> uapi::drm_amdgpu_info_vram_gtt {
    let vram = gpu.vram();
    uapi::drm_amdgpu_info_vram_gtt {
        vram_size: vram.usable(),
        vram_cpu_accessible_size: vram.visible().min(vram.usable()),
        gtt_size: account::gtt_limit(),
    }
}

/// Trusted applications: of xGMI, and the last one (`enum ta_fw_type`, `amdgpu_ucode.h`).
const TA_XGMI: u32 = 2;
const TA_SECUREDISPLAY: u32 = 7;

/// Returns the result of `FW_VERSION`; `EINVAL` for unknown firmware.
fn firmware(gpu: &Gpu, arg: &uapi::drm_amdgpu_info) -> Result<uapi::drm_amdgpu_info_firmware> {
    let input = uapi::info_query_fw(arg);
    if input.ip_instance != 0 {
        return Err(EINVAL);
    }
    let versions = gpu.firmware_versions();
    let release = match input.fw_type {
        uapi::AMDGPU_INFO_FW_GFX_MEC if input.index == 0 => versions.mec,
        uapi::AMDGPU_INFO_FW_GFX_MEC if input.index == 1 => versions.mec2,
        uapi::AMDGPU_INFO_FW_GFX_PFP => versions.pfp,
        uapi::AMDGPU_INFO_FW_GFX_ME => versions.me,
        uapi::AMDGPU_INFO_FW_IMU => Release {
            version: versions.imu,
            feature: 0,
        },
        // Both pipes of MES have the same firmware.
        uapi::AMDGPU_INFO_FW_MES | uapi::AMDGPU_INFO_FW_MES_KIQ => {
            let version = gpu.mes_version();
            Release {
                version: version.scheduler,
                feature: version.feature,
            }
        }
        uapi::AMDGPU_INFO_FW_SDMA if input.index < gpu.config().num_sdma => versions.sdma,
        uapi::AMDGPU_INFO_FW_GFX_RLC => versions.rlc,
        uapi::AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_CNTL => versions.rlc_lists[0],
        uapi::AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_GPM_MEM => versions.rlc_lists[1],
        uapi::AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_SRM_MEM => versions.rlc_lists[2],
        // PSP firmware has one number, which the C driver reports as version and feature.
        uapi::AMDGPU_INFO_FW_SOS => Release {
            version: versions.os,
            feature: versions.os,
        },
        uapi::AMDGPU_INFO_FW_ASD => Release {
            version: versions.ta_driver,
            feature: versions.ta_driver,
        },
        uapi::AMDGPU_INFO_FW_TA if input.index == TA_XGMI => Release {
            version: versions.ta_xgmi,
            feature: versions.ta_xgmi,
        },
        uapi::AMDGPU_INFO_FW_TA if (TA_XGMI..=TA_SECUREDISPLAY).contains(&input.index) => {
            Release::default()
        }
        uapi::AMDGPU_INFO_FW_SMC => Release {
            version: gpu.smu_facts().version,
            feature: 0,
        },
        // Blocks that the card lacks, or whose firmware the driver does not load.
        uapi::AMDGPU_INFO_FW_VCE..=uapi::AMDGPU_INFO_FW_GFX_CE
        | uapi::AMDGPU_INFO_FW_VCN
        | uapi::AMDGPU_INFO_FW_DMCU
        | uapi::AMDGPU_INFO_FW_DMCUB..=uapi::AMDGPU_INFO_FW_VPE => Release::default(),
        _ => return Err(EINVAL),
    };
    Ok(uapi::drm_amdgpu_info_firmware {
        ver: release.version,
        feature: release.feature,
    })
}

/// Writes the result of `VBIOS`; without a VBIOS its size is 0 and the texts are empty. `EINVAL`
/// for an offset beyond the image and for an unknown request.
fn vbios(gpu: &Gpu, arg: &uapi::drm_amdgpu_info, out: &Out) -> Result {
    let request = uapi::info_vbios(arg);
    let vbios = gpu.vbios();
    let image = vbios.map_or(&[][..], Vbios::image);
    match request.type_ {
        uapi::AMDGPU_INFO_VBIOS_SIZE => out.put(&u32::try_from(image.len())?),
        uapi::AMDGPU_INFO_VBIOS_IMAGE => match image.get(usize::try_from(request.offset)?..) {
            None | Some([]) => Err(EINVAL),
            Some(rest) => out.put_bytes(rest),
        },
        uapi::AMDGPU_INFO_VBIOS_INFO => {
            let mut info = uapi::drm_amdgpu_info_vbios::default();
            if let Some(vbios) = vbios {
                copy(&mut info.name, vbios.name());
                copy(&mut info.vbios_pn, vbios.part_number());
                info.version = vbios.revision();
                copy(&mut info.vbios_ver_str, vbios.version());
                copy(&mut info.date, &vbios.date());
            }
            out.put(&info)
        }
        _ => Err(EINVAL),
    }
}

/// Copies a text to the start of a buffer, truncated to its size.
fn copy(to: &mut [u8], text: &[u8]) {
    let size = text.len().min(to.len());
    to[..size].copy_from_slice(&text[..size]);
}

/// Returns the limits of IBs of one submission, by ring type (`amdgpu_ring_max_ibs()`).
fn max_ibs() -> [u32; uapi::AMDGPU_HW_IP_NUM as usize] {
    core::array::from_fn(|kind| match kind as u32 {
        uapi::AMDGPU_HW_IP_GFX => 192,
        uapi::AMDGPU_HW_IP_COMPUTE => 125,
        uapi::AMDGPU_HW_IP_VCN_JPEG => 16,
        _ => DMA_MAX_IBS,
    })
}
