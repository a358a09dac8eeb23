// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands of the kernel's ring.
//!
//! A command in the wrong state or with wrong content is rejected with a status and a strict line.
//! Linux continues after an error status (`psp_cmd_submit_buf` only warns), so the driver then
//! observes an engine without firmware.

use std::ops::Range;

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, nbio_7_9_0 as nbio};
use rkfd_abi::psp::{
    cmd, cmd_buf, fw_reserve, fw_type, load_ip_fw, load_ta, load_toc, memory_part, resp, setup_tmr,
    spatial_part, status, unload_ta, ADDRESS, ADDRESS_ALIGN, TMR_ALIGN, TMR_SIZE, TRANSFER_SIZE,
};

use super::blob::{self, Blob};
use super::targets::{self, Target};
use super::xgmi::{self, Xgmi};
use crate::chips::Generation;
use crate::engines::firmware::Fw;
use crate::engines::gc::bootload_status;
use crate::engines::memory;
use crate::gpu::Gpu;
use crate::regs::Ip;
use crate::{event, strict};

/// Maximum size of the memory shared with a trusted application, in bytes.
const MAX_SHARED: u32 = 64 << 20;
/// Maximum number of sessions.
const MAX_SESSIONS: usize = 16;

/// State of the secure OS between commands.
#[derive(Debug, Default)]
pub struct Os {
    /// TMR: address of the next component in it, and whether the driver allocated it.
    tmr: Option<(u64, bool)>,
    /// The P2S table was loaded in this TMR.
    p2s: bool,
    /// Types and versions of the images in the TMR, which the RLC gives to the engines (14.0.3).
    staged: Vec<(u32, u32)>,
    sessions: Vec<Session>,
    last_session: u32,
}

impl Os {
    /// Returns the state in which the secure OS starts. On 14.0.3 the boot firmware's TMR is in use
    /// without a SETUP_TMR (`psp_skip_tmr`).
    pub fn started(gpu: &Gpu) -> Self {
        let tmr = match gpu.chip.generation {
            Generation::Gfx9 => None,
            Generation::Gfx12 => {
                let region = &gpu.gmc.firmware_regions()[0];
                Some((gpu.placement.start() + region.start, false))
            }
        };
        Self {
            tmr,
            ..Self::default()
        }
    }
}

/// A trusted application that is loaded.
#[derive(Debug)]
struct Session {
    id: u32,
    /// `None`: the application is not modelled.
    xgmi: Option<Xgmi>,
}

/// A command buffer.
pub struct Command(pub [u8; cmd_buf::SIZE]);

impl Command {
    /// Returns a dword of the buffer.
    pub fn word(&self, at: usize) -> u32 {
        let b = &self.0[at..at + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    /// Returns a dword of the command's structure.
    fn arg(&self, at: usize) -> u32 {
        self.word(cmd_buf::CMD + at)
    }

    /// Returns an address of the command's structure.
    fn addr(&self, at: usize) -> u64 {
        u64::from(self.arg(at)) | u64::from(self.arg(at + 4)) << 32
    }

    /// Returns the command id.
    pub fn id(&self) -> u32 {
        self.word(cmd_buf::CMD_ID)
    }
}

/// A response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub(super) status: u32,
    session: u32,
    fw_addr: u64,
    tmr_size: u32,
    /// Memory reserved by firmware: offset in video memory, bytes.
    reserved: (u64, u32),
}

impl Reply {
    /// Returns a response with a status only.
    pub fn status(status: u32) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Returns the bytes in the command buffer.
    pub fn bytes(&self) -> [u8; resp::SIZE] {
        let mut out = [0; resp::SIZE];
        let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(resp::STATUS, self.status);
        put(resp::SESSION_ID, self.session);
        put(resp::FW_ADDR_LO, self.fw_addr as u32);
        put(resp::FW_ADDR_HI, (self.fw_addr >> 32) as u32);
        put(resp::TMR_SIZE, self.tmr_size);
        let (at, size) = self.reserved;
        put(resp::URESP + fw_reserve::BASE_HI, (at >> 32) as u32);
        put(resp::URESP + fw_reserve::BASE_LO, at as u32);
        put(resp::URESP + fw_reserve::SIZE, size);
        out
    }
}

/// Rejects a command: strict line and status.
macro_rules! refuse {
    ($gpu:expr, $status:expr, $($what:tt)*) => {{
        strict!($gpu.strict, "psp", $($what)*);
        return Err($status);
    }};
}

/// Executes a command.
pub fn run(gpu: &Gpu, os: &mut Os, command: &Command) -> Reply {
    let id = command.id();
    let gfx12 = gpu.chip.generation == Generation::Gfx12;
    let result = match id {
        cmd::AUTOLOAD_RLC if gfx12 => autoload(gpu, os),
        cmd::FB_FW_RESERV_ADDR if gfx12 => Ok(reserved(gpu, 0)),
        cmd::FB_FW_RESERV_EXT_ADDR if gfx12 => Ok(reserved(gpu, 1)),
        cmd::SRIOV_SPATIAL_PART | cmd::FB_NPS_MODE if gfx12 => unknown(gpu, id),
        cmd::SETUP_TMR => setup_region(gpu, os, command),
        cmd::DESTROY_TMR => destroy_region(gpu, os),
        cmd::LOAD_IP_FW => load_firmware(gpu, os, command),
        cmd::LOAD_TOC => load_list(gpu, command),
        cmd::LOAD_ASD | cmd::LOAD_TA => load_application(gpu, os, command),
        cmd::UNLOAD_TA => unload_application(gpu, os, command),
        cmd::INVOKE_CMD => invoke(gpu, os, command),
        cmd::SRIOV_SPATIAL_PART if gpu.knobs.psp_no_partition.shift() => Err(status::tee::GENERIC),
        cmd::SRIOV_SPATIAL_PART => partition(gpu, command),
        cmd::FB_NPS_MODE => memory_mode(gpu, command),
        _ => unknown(gpu, id),
    };
    let reply = result.unwrap_or_else(Reply::status);
    event!(
        gpu.trace,
        "psp",
        "command",
        "id={} status={:#x}",
        cmd::name(id).unwrap_or("?"),
        reply.status
    );
    reply
}

fn unknown(gpu: &Gpu, id: u32) -> Result<Reply, u32> {
    match cmd::name(id) {
        Some(name) => refuse!(
            gpu,
            status::NOT_SUPPORTED,
            "command {name}: not on this chip"
        ),
        None => refuse!(gpu, status::UNKNOWN_COMMAND, "no command {id:#x}"),
    }
}

/// Returns the response with a region of the boot firmware; zeroes without such a region.
fn reserved(gpu: &Gpu, region: usize) -> Reply {
    let Range { start, end } = gpu.gmc.firmware_regions()[region];
    match start < end {
        true => Reply {
            reserved: (start, (end - start) as u32),
            ..Reply::default()
        },
        false => Reply::default(),
    }
}

/// Checks the alignment of an address.
fn aligned(gpu: &Gpu, what: &str, addr: u64) -> Result<(), u32> {
    if addr % ADDRESS_ALIGN != 0 || addr & !ADDRESS.mask != 0 {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "{what} at {addr:#x}: not a page-aligned 48-bit address"
        );
    }
    Ok(())
}

fn setup_region(gpu: &Gpu, os: &mut Os, command: &Command) -> Result<Reply, u32> {
    let addr = command.addr(setup_tmr::BUF_ADDR_LO);
    let size = command.arg(setup_tmr::BUF_SIZE);
    let flags = command.arg(setup_tmr::FLAGS);
    let system = command.addr(setup_tmr::SYSTEM_ADDR_LO);
    if os.tmr.is_some() {
        refuse!(
            gpu,
            status::tee::BAD_STATE,
            "SETUP_TMR: the trusted memory region exists already"
        );
    }
    if flags & !setup_tmr::FLAG_VIRT_PHY_ADDR.mask != 0 {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SETUP_TMR: flags {flags:#x}"
        );
    }
    if addr == 0 && size == 0 {
        // Boot firmware has reserved one (psp->boot_time_tmr).
        let start = gpu.placement.start() + gpu.gmc.firmware_regions()[0].start;
        os.tmr = Some((start, false));
        return Ok(Reply::default());
    }
    aligned(gpu, "SETUP_TMR: region", addr)?;
    let given = setup_tmr::FLAG_VIRT_PHY_ADDR.is_set(flags);
    if addr % TMR_ALIGN != 0 || u64::from(size) < TMR_SIZE || size % 0x1000 != 0 || !given {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SETUP_TMR: {size:#x} bytes at {addr:#x}, flags {flags:#x}"
        );
    }
    let in_memory = system.checked_add(size.into());
    if system % TMR_ALIGN != 0 || in_memory.is_none_or(|end| end > gpu.vram.len()) {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SETUP_TMR: {size:#x} bytes at {system:#x} of video memory"
        );
    }
    os.tmr = Some((addr, true));
    Ok(Reply::default())
}

fn destroy_region(gpu: &Gpu, os: &mut Os) -> Result<Reply, u32> {
    os.p2s = false;
    match os.tmr.take() {
        Some((_, true)) => gpu.firmware.reset(false),
        // The contents of the boot firmware's region stay there.
        Some((_, false)) => {}
        None => refuse!(
            gpu,
            status::tee::BAD_STATE,
            "DESTROY_TMR: no trusted memory region"
        ),
    }
    Ok(Reply::default())
}

/// Validates the container of a command.
fn container(gpu: &Gpu, what: &str, addr: u64, size: u32) -> Result<Blob, u32> {
    aligned(gpu, what, addr)?;
    blob::read(gpu, addr, size).map_err(|why| {
        strict!(
            gpu.strict,
            "psp",
            "{what} of {size:#x} bytes at {addr:#x}: {why}"
        );
        status::tee::SECURITY
    })
}

fn load_firmware(gpu: &Gpu, os: &mut Os, command: &Command) -> Result<Reply, u32> {
    let addr = command.addr(load_ip_fw::FW_ADDR_LO);
    let size = command.arg(load_ip_fw::FW_SIZE);
    let fw = command.arg(load_ip_fw::FW_TYPE);
    let name = fw_type::name(fw).unwrap_or("?");
    let Some((next, _)) = &mut os.tmr else {
        refuse!(
            gpu,
            status::tee::BAD_STATE,
            "LOAD_IP_FW {name}: no trusted memory region"
        );
    };
    let Some(target) = targets::of(gpu, fw) else {
        refuse!(
            gpu,
            status::NOT_SUPPORTED,
            "LOAD_IP_FW of type {fw} ({name}): this chip has none"
        );
    };
    let Target { piece, kinds, data } = target;
    let what = format!("LOAD_IP_FW {name}");
    let blob = container(gpu, &what, addr, size)?;
    if !kinds.contains(&blob.kind) {
        refuse!(
            gpu,
            status::tee::SECURITY,
            "{what}: the container is of kind {:#x}, not one of {kinds:x?}",
            blob.kind
        );
    }
    // The size of data memory is that of the memory, of which the container is the start.
    if blob.total != size && !data {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "{what}: {size:#x} bytes are given, the container has {:#x}",
            blob.total
        );
    }
    match gpu.chip.generation {
        Generation::Gfx9 => {
            // It is the first image that the C driver loads (`psp_load_p2s_table`).
            os.p2s |= fw == fw_type::P2S_TABLE;
            if !os.p2s {
                strict!(gpu.strict, "psp", "{what} before the P2S table");
            }
            for piece in piece.iter().flat_map(|piece| piece.everywhere(gpu.chip)) {
                start(gpu, piece);
            }
        }
        Generation::Gfx12 => {
            // The RLC relies on the SMU (`gfx_v12_0_hw_init`): its firmware is the first but the
            // register list (`psp_load_non_psp_fw`).
            let later = fw != fw_type::SMU && fw != fw_type::REG_LIST;
            if later && !os.staged.iter().any(|(fw, _)| *fw == fw_type::SMU) {
                strict!(gpu.strict, "psp", "{what} before that of the SMU");
            }
            os.staged.push((fw, blob.version));
        }
    }
    let at = *next;
    *next += u64::from(size).next_multiple_of(ADDRESS_ALIGN);
    event!(
        gpu.trace,
        "psp",
        "firmware",
        "type={name} bytes={size:#x} version={:#x} at={at:#x}",
        blob.version
    );
    Ok(Reply {
        fw_addr: at,
        ..Reply::default()
    })
}

/// Marks a piece of firmware as loaded, and starts the engine if it is that of SDMA.
fn start(gpu: &Gpu, piece: Fw) {
    gpu.firmware.put(piece);
    if let Fw::Sdma(n) = piece {
        gpu.sdma.start_loaded(n);
    }
}

/// Executes AUTOLOAD_RLC: the RLC gives the images in the TMR to the engines of the graphics core
/// and reports so in `RLC_RLCS_BOOTLOAD_STATUS` (`gfx_v12_0_wait_for_rlc_autoload_complete`).
fn autoload(gpu: &Gpu, os: &mut Os) -> Result<Reply, u32> {
    let missing = |fw: &&u32| !os.staged.iter().any(|(staged, _)| staged == *fw);
    if let Some(fw) = targets::AUTOLOADED.iter().find(missing) {
        refuse!(
            gpu,
            status::tee::BAD_STATE,
            "AUTOLOAD_RLC without {}",
            fw_type::name(*fw).unwrap_or("?")
        );
    }
    for (fw, version) in std::mem::take(&mut os.staged) {
        match targets::of(gpu, fw).and_then(|target| target.piece) {
            // One image serves both engines (`amdgpu_sdma_init_microcode`).
            Some(Fw::Sdma(_)) => {
                start(gpu, Fw::Sdma(0));
                start(gpu, Fw::Sdma(1));
            }
            Some(piece) => {
                if let (Fw::Mes(pipe), Some(xcc)) = (piece, gpu.xccs.first()) {
                    xcc.mes.set_version(pipe, version);
                }
                start(gpu, piece);
            }
            None => {}
        }
    }
    booted(gpu);
    Ok(Reply::default())
}

/// Reports that the RLC of gfx12 has given all firmware to the engines.
pub fn booted(gpu: &Gpu) {
    if let Some(slot) = bootload_status(gpu) {
        let complete = gc12::RLC_RLCS_BOOTLOAD_STATUS__BOOTLOAD_COMPLETE.mask;
        gpu.respond_slowly(slot, complete);
    }
}

fn load_list(gpu: &Gpu, command: &Command) -> Result<Reply, u32> {
    let addr = command.addr(load_toc::TOC_ADDR_LO);
    container(gpu, "LOAD_TOC", addr, command.arg(load_toc::TOC_SIZE))?;
    Ok(Reply {
        tmr_size: TMR_SIZE as u32,
        ..Reply::default()
    })
}

fn load_application(gpu: &Gpu, os: &mut Os, command: &Command) -> Result<Reply, u32> {
    let addr = command.addr(load_ta::APP_ADDR_LO);
    let size = command.arg(load_ta::APP_LEN);
    let shared = command.addr(load_ta::CMD_BUF_ADDR_LO);
    let shared_size = command.arg(load_ta::CMD_BUF_LEN);
    if u64::from(size) > TRANSFER_SIZE {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "LOAD_TA: size {size:#x} is too large"
        );
    }
    let blob = container(gpu, "LOAD_TA", addr, size)?;
    aligned(gpu, "LOAD_TA: buffer", shared)?;
    if shared_size % 0x1000 != 0 || shared_size > MAX_SHARED || (shared == 0) != (shared_size == 0)
    {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "LOAD_TA: {shared_size:#x} bytes of buffer at {shared:#x}"
        );
    }
    if os.sessions.len() == MAX_SESSIONS {
        refuse!(
            gpu,
            status::tee::OUT_OF_MEMORY,
            "LOAD_TA: {MAX_SESSIONS} applications are loaded already"
        );
    }
    os.last_session += 1;
    os.sessions.push(Session {
        id: os.last_session,
        xgmi: (blob.uuid == xgmi::UUID).then(|| Xgmi::new(shared, shared_size)),
    });
    Ok(Reply {
        session: os.last_session,
        ..Reply::default()
    })
}

fn unload_application(gpu: &Gpu, os: &mut Os, command: &Command) -> Result<Reply, u32> {
    let session = command.arg(unload_ta::SESSION_ID);
    let Some(at) = os.sessions.iter().position(|s| s.id == session) else {
        refuse!(
            gpu,
            status::tee::ITEM_NOT_FOUND,
            "UNLOAD_TA: no session {session:#x}"
        );
    };
    os.sessions.swap_remove(at);
    Ok(Reply::default())
}

/// Executes INVOKE_CMD. Of the trusted applications that of xGMI is modelled.
fn invoke(gpu: &Gpu, os: &mut Os, command: &Command) -> Result<Reply, u32> {
    use rkfd_abi::psp::invoke;
    let session = command.arg(invoke::SESSION_ID);
    let what = command.arg(invoke::TA_CMD_ID);
    match os.sessions.iter_mut().find(|s| s.id == session) {
        Some(Session {
            xgmi: Some(xgmi), ..
        }) => xgmi.run(gpu, what).map(|()| Reply::default()),
        Some(_) => refuse!(
            gpu,
            status::NOT_SUPPORTED,
            "INVOKE_CMD {what:#x} of session {session:#x}: not modelled"
        ),
        None => refuse!(
            gpu,
            status::tee::ITEM_NOT_FOUND,
            "INVOKE_CMD {what:#x}: no session {session:#x}"
        ),
    }
}

/// Sets a register of the card that only firmware writes.
fn put(gpu: &Gpu, ip: Ip, instance: u8, reg: gpu_regs::Reg, value: u32) {
    let base = gpu.chip.base(ip, instance, reg.seg);
    if let Some(slot) = base.and_then(|base| gpu.regs.get(base + reg.off)) {
        slot.set(value);
    }
}

/// Partitions the XCCs equally.
fn partition(gpu: &Gpu, command: &Command) -> Result<Reply, u32> {
    let count = command.arg(spatial_part::MODE);
    let overrides = [
        spatial_part::OVERRIDE_IPS,
        spatial_part::OVERRIDE_XCDS_AVAIL,
        spatial_part::OVERRIDE_THIS_AID,
    ];
    let xccs = gpu.xccs.len() as u32;
    let mode = match count {
        // CPX with one XCC each, otherwise SPX, DPX, TPX, QPX by the number of partitions.
        _ if count == xccs && xccs > 1 => 4,
        1..=4 if count <= xccs && xccs % count == 0 => count - 1,
        _ => refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SRIOV_SPATIAL_PART: {count} partitions of {xccs} XCCs"
        ),
    };
    let memory = gpu.memory.mode();
    if !memory::serves(memory, count) {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SRIOV_SPATIAL_PART: {count} partitions in mode NPS{memory}"
        );
    }
    if overrides.iter().any(|at| command.arg(*at) != 0) {
        refuse!(
            gpu,
            status::tee::BAD_PARAMETERS,
            "SRIOV_SPATIAL_PART: overrides are not modelled"
        );
    }
    if let Some((xcc, _)) = gpu.shared.schedulers().first() {
        refuse!(
            gpu,
            status::tee::BAD_STATE,
            "SRIOV_SPATIAL_PART: {count} partitions while XCC {xcc} has an HIQ"
        );
    }
    let each = xccs / count;
    for (logical, xcc) in (0..).zip(&gpu.xccs) {
        let value = gc::CP_HYP_XCP_CTL__NUM_XCC_IN_XCP.put(each)
            | gc::CP_HYP_XCP_CTL__VIRTUAL_XCC_ID.put(logical % each);
        put(gpu, Ip::Gc, xcc.instance, gc::regCP_HYP_XCP_CTL, value);
    }
    let field = nbio::BIF_BX_PF0_PARTITION_COMPUTE_STATUS__PARTITION_MODE;
    let status = nbio::regBIF_BX_PF0_PARTITION_COMPUTE_STATUS;
    put(gpu, Ip::Nbif, 0, status, field.put(mode));
    Ok(Reply::default())
}

/// Requests a memory partition mode for the next mode-1 reset.
fn memory_mode(gpu: &Gpu, command: &Command) -> Result<Reply, u32> {
    let mode = command.arg(memory_part::MODE);
    if !gpu.memory.request(gpu, mode) {
        refuse!(gpu, status::tee::BAD_PARAMETERS, "FB_NPS_MODE {mode}");
    }
    Ok(Reply::default())
}
