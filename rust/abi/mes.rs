// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MES: frames and replies of the gfx12 scheduling firmware's ring.
//!
//! Sources: `include/mes_v12_api_def.h` (frames, opcodes, error word), `amdgpu/amdgpu_mes.h`
//! (version word, context sizes). A frame is [`FRAME_DWORDS`] long and begins with a header.
//! Indices are in dwords; dword 0 is the header. The module of a frame has a constant per field,
//! its `STATUS` (location of the address and value of the completion fence) and its [`Frame`].

use crate::bits::{join, name_in, DwField, Field};

/// Interface version of these frames (`MES_API_VERSION`).
pub const API_VERSION: u32 = 0x14;
/// Size of a frame, in dwords; unused dwords included.
pub const FRAME_DWORDS: usize = 64;
/// Size of a frame, in bytes.
pub const FRAME_BYTES: usize = FRAME_DWORDS * 4;

/// Header: API type, [`TYPE_SCHEDULER`].
pub const HEADER_TYPE: Field = Field::span(3, 0);
/// Header: one of [`op`].
pub const HEADER_OPCODE: Field = Field::span(11, 4);
/// Header: size of the frame in dwords, the header included.
pub const HEADER_DWSIZE: Field = Field::span(19, 12);
/// Header: reserved bits, must be zero.
pub const HEADER_RESERVED: Field = Field::span(31, 20);
/// `HEADER_TYPE` of every frame (`MES_API_TYPE_SCHEDULER`).
pub const TYPE_SCHEDULER: u32 = 1;

/// Returns the header of a frame.
#[inline]
pub const fn header(opcode: u8) -> u32 {
    HEADER_TYPE.put(TYPE_SCHEDULER)
        | HEADER_OPCODE.put(opcode as u32)
        | HEADER_DWSIZE.put(FRAME_DWORDS as u32)
}

macro_rules! names {
    ($(#[$meta:meta])* $module:ident { $($name:ident = $value:literal),* $(,)? }) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        pub mod $module {
            $(pub const $name: u8 = $value;)*
            /// All values with their names.
            pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
        }
    };
}

names! {
    /// Opcodes (`MES_SCH_API_*`).
    op {
        SET_HW_RSRC = 0,
        SET_SCHEDULING_CONFIG = 1,
        ADD_QUEUE = 2,
        REMOVE_QUEUE = 3,
        PERFORM_YIELD = 4,
        SET_GANG_PRIORITY_LEVEL = 5,
        SUSPEND = 6,
        RESUME = 7,
        RESET = 8,
        SET_LOG_BUFFER = 9,
        CHANGE_GANG_PRORITY = 10,
        QUERY_SCHEDULER_STATUS = 11,
        SET_DEBUG_VMID = 13,
        MISC = 14,
        UPDATE_ROOT_PAGE_TABLE = 15,
        AMD_LOG = 16,
        SET_SE_MODE = 17,
        SET_GANG_SUBMIT = 18,
        SET_HW_RSRC_1 = 19,
        INV_TLBS = 20,
    }
}

names! {
    /// Sub-opcodes of MISC (`MESAPI_MISC__*`).
    misc_op {
        WRITE_REG = 0,
        INV_GART = 1,
        QUERY_STATUS = 2,
        READ_REG = 3,
        WAIT_REG_MEM = 4,
        SET_SHADER_DEBUGGER = 5,
        NOTIFY_WORK_ON_UNMAPPED_QUEUE = 6,
        NOTIFY_TO_UNMAP_PROCESSES = 7,
        QUERY_HUNG_ENGINE_ID = 8,
        CHANGE_CONFIG = 9,
        LAUNCH_CLEANER_SHADER = 10,
        SETUP_MES_DBGEXT = 11,
    }
}

names! {
    /// Queue types (`MES_QUEUE_TYPE_*`).
    queue_type {
        GFX = 0,
        COMPUTE = 1,
        SDMA = 2,
        SCHQ = 3,
    }
}

names! {
    /// Priority levels (`AMD_PRIORITY_LEVEL_*`).
    priority {
        LOW = 0,
        NORMAL = 1,
        MEDIUM = 2,
        HIGH = 3,
        REALTIME = 4,
    }
}

names! {
    /// Error categories (`MES_ERROR_*`).
    error_category {
        API = 1,
        SCHEDULING = 2,
        UNKNOWN = 3,
    }
}

names! {
    /// Sub-opcodes of QUERY_SCHEDULER_STATUS (`MES_API_QUERY_MES__*`).
    query_op {
        GET_CTX_ARRAY_SIZE = 0,
        CHECK_HEALTHY = 1,
    }
}

names! {
    /// Operations of WAIT_REG_MEM (`WRM_OPERATION__*`).
    wait_op {
        WAIT_REG_MEM = 0,
        WR_WAIT_WR_REG = 1,
    }
}

/// Number of priority levels.
pub const PRIORITY_LEVELS: usize = 5;
/// Compute pipes in the HQD masks of SET_HW_RSRC.
pub const COMPUTE_PIPES: usize = 8;
/// SDMA engines in the HQD masks of SET_HW_RSRC.
pub const SDMA_PIPES: usize = 2;
/// Graphics pipes in the HQD masks of SET_HW_RSRC.
pub const GFX_PIPES: usize = 2;

/// ME 3 pipe of the scheduler (`AMDGPU_MES_SCHED_PIPE`).
pub const PIPE_SCHED: u32 = 0;
/// ME 3 pipe that replaces the KIQ (`AMDGPU_MES_KIQ_PIPE`).
pub const PIPE_KIQ: u32 = 1;
/// ME of both MES pipes.
pub const ME: u32 = 3;
/// Number of MES pipes.
pub const PIPES: usize = 2;

/// Size of a process context, in bytes (`AMDGPU_MES_PROC_CTX_SIZE`).
pub const PROCESS_CONTEXT_SIZE: usize = 0x1000;
/// Size of a gang context, in bytes (`AMDGPU_MES_GANG_CTX_SIZE`).
pub const GANG_CONTEXT_SIZE: usize = 0x1000;

/// Version word in `CP_MES_GP3_LO`: firmware version.
pub const VERSION: Field = Field::span(11, 0);
/// Version word: API version.
pub const VERSION_API: Field = Field::span(23, 12);
/// Version word: feature version.
pub const VERSION_FEATURE: Field = Field::span(31, 24);

/// Dwords of a frame's `STATUS`: address and value of the completion fence. On success the low half
/// of the fence is the value given; on failure it is 0 and the high half is an [`ErrorWord`].
pub const STATUS_DWORDS: usize = 4;

/// INV_TLBS: `INV_SEL_ID` is a PASID.
pub const INV_SEL_PASID: u32 = 0;
/// INV_TLBS: `INV_SEL_ID` is a VMID.
pub const INV_SEL_VMID: u32 = 1;
/// INV_TLBS: graphics hub (`VM_HUB_TYPE_GC`).
pub const HUB_GC: u32 = 0;
/// INV_TLBS: memory hub (`VM_HUB_TYPE_MM`).
pub const HUB_MM: u32 = 1;

/// Empty entry in the array of hung queues' doorbells (`AMDGPU_MES_INVALID_DB_OFFSET`).
pub const NO_DOORBELL: u32 = u32::MAX;
/// Hung queue: its [`queue_type`].
pub const HUNG_QUEUE_TYPE: Field = Field::span(2, 0);
/// Hung queue: pipe.
pub const HUNG_PIPE: Field = Field::span(6, 3);
/// Hung queue: HQD in the pipe.
pub const HUNG_HQD: Field = Field::span(14, 7);

/// Returns the name of an opcode.
pub const fn op_name(opcode: u8) -> Option<&'static str> {
    name_in(op::ALL, opcode)
}

/// Returns the name of a MISC sub-opcode.
pub const fn misc_op_name(opcode: u8) -> Option<&'static str> {
    name_in(misc_op::ALL, opcode)
}

/// Error in the high half of a fence whose low half is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorWord {
    /// Error code, specific to the opcode.
    pub code: u8,
    /// Opcode of the frame.
    pub opcode: u8,
    /// Sub-opcode of a MISC frame.
    pub misc: u8,
    /// One of [`error_category`].
    pub category: u8,
}

/// Error word: error code, specific to the opcode.
pub const ERROR_CODE: Field = Field::span(7, 0);
/// Error word: opcode of the frame.
pub const ERROR_OPCODE: Field = Field::span(15, 8);
/// Error word: sub-opcode of a MISC frame.
pub const ERROR_MISC: Field = Field::span(23, 16);
/// Error word: one of [`error_category`].
pub const ERROR_CATEGORY: Field = Field::span(30, 24);
/// Error word: valid.
pub const ERROR_FLAG: Field = Field::span(31, 31);

impl ErrorWord {
    /// Returns the fence of a failed frame.
    pub const fn encode(self) -> u64 {
        let word = ERROR_CODE.put(self.code as u32)
            | ERROR_OPCODE.put(self.opcode as u32)
            | ERROR_MISC.put(self.misc as u32)
            | ERROR_CATEGORY.put(self.category as u32)
            | ERROR_FLAG.put(1);
        join(0, word)
    }

    /// Returns the error in a fence, or `None` if the frame succeeded or the fence is not written
    /// yet.
    pub const fn decode(status: u64) -> Option<Self> {
        let word = (status >> 32) as u32;
        if status as u32 != 0 || !ERROR_FLAG.is_set(word) {
            return None;
        }
        Some(Self {
            code: ERROR_CODE.get(word) as u8,
            opcode: ERROR_OPCODE.get(word) as u8,
            misc: ERROR_MISC.get(word) as u8,
            category: ERROR_CATEGORY.get(word) as u8,
        })
    }
}

/// A 64-bit field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QField {
    /// Name of the field, as in AMD's header, in capitals.
    pub name: &'static str,
    /// Index of its low dword.
    pub dw: usize,
}

impl QField {
    /// Returns the field's value. `words` must be long enough.
    #[inline]
    pub const fn get(self, words: &[u32]) -> u64 {
        join(words[self.dw], words[self.dw + 1])
    }

    /// Sets the field in `words`, which must be long enough.
    #[inline]
    pub fn set(self, words: &mut [u32], value: u64) {
        words[self.dw] = value as u32;
        words[self.dw + 1] = (value >> 32) as u32;
    }
}

/// An array of dwords in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AField {
    /// Name of the field, as in AMD's header, in capitals.
    pub name: &'static str,
    /// Index of its first dword.
    pub dw: usize,
    /// Number of dwords.
    pub len: usize,
}

impl AField {
    /// Returns element `n`. `words` must be long enough.
    #[inline]
    pub const fn get(self, words: &[u32], n: usize) -> u32 {
        debug_assert!(n < self.len);
        words[self.dw + n]
    }

    /// Sets element `n` in `words`, which must be long enough.
    #[inline]
    pub fn set(self, words: &mut [u32], n: usize, value: u32) {
        debug_assert!(n < self.len);
        words[self.dw + n] = value;
    }
}

/// Layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the opcode, or of the sub-opcode of a MISC frame.
    pub name: &'static str,
    /// Opcode.
    pub opcode: u8,
    /// Sub-opcode of a MISC frame.
    pub misc: Option<u8>,
    /// First of the four dwords that hold address and value of the completion fence.
    pub status: usize,
    /// Fields within one dword.
    pub words: &'static [DwField],
    /// 64-bit fields.
    pub quads: &'static [QField],
    /// Arrays of dwords.
    pub arrays: &'static [AField],
}

impl Frame {
    /// Returns the frame's header.
    #[inline]
    pub const fn header(&self) -> u32 {
        header(self.opcode)
    }

    /// Returns the field with the address of the completion fence.
    #[inline]
    pub const fn fence_addr(&self) -> QField {
        QField {
            name: "API_COMPLETION_FENCE_ADDR",
            dw: self.status,
        }
    }

    /// Returns the field with the value of the completion fence on success.
    #[inline]
    pub const fn fence_value(&self) -> QField {
        QField {
            name: "API_COMPLETION_FENCE_VALUE",
            dw: self.status + 2,
        }
    }

    /// Returns the bits of dword `dw` that no field covers; for the header those that must be zero.
    pub const fn undefined(&self, dw: usize) -> u32 {
        if dw == 0 {
            return HEADER_RESERVED.mask;
        }
        if dw >= self.status && dw < self.status + STATUS_DWORDS {
            return 0;
        }
        let mut i = 0;
        while i < self.quads.len() {
            if dw == self.quads[i].dw || dw == self.quads[i].dw + 1 {
                return 0;
            }
            i += 1;
        }
        i = 0;
        while i < self.arrays.len() {
            if dw >= self.arrays[i].dw && dw < self.arrays[i].dw + self.arrays[i].len {
                return 0;
            }
            i += 1;
        }
        crate::bits::uncovered(self.words, dw)
    }

    /// Calls `f` with name, array index and value of every nonzero field.
    pub fn each(&self, words: &[u32; FRAME_DWORDS], mut f: impl FnMut(&str, Option<usize>, u64)) {
        for dw in 1..FRAME_DWORDS {
            for field in self.words.iter().filter(|w| w.dw == dw) {
                if field.get(words) != 0 {
                    f(field.name, None, field.get(words).into());
                }
            }
            for field in self.quads.iter().filter(|q| q.dw == dw) {
                if field.get(words) != 0 {
                    f(field.name, None, field.get(words));
                }
            }
            for field in self.arrays.iter().filter(|a| a.dw == dw) {
                for n in (0..field.len).filter(|n| field.get(words, *n) != 0) {
                    f(field.name, Some(n), field.get(words, n).into());
                }
            }
        }
    }
}

/// Declares a frame: a module with one constant per field and the lists.
macro_rules! frame {
    (
        $(#[$meta:meta])*
        $module:ident = $opcode:ident $(/ $misc:ident)?, status $status:literal;
        words { $($(#[$wmeta:meta])* $word:ident: $dw:literal [$high:literal : $low:literal];)* }
        quads { $($(#[$qmeta:meta])* $quad:ident: $qdw:literal;)* }
        $(arrays { $($(#[$ameta:meta])* $array:ident: $adw:literal x $len:expr;)* })?
    ) => {
        $(#[$meta])*
        pub mod $module {
            #[allow(unused_imports)]
            use crate::bits::DwField;
            #[allow(unused_imports)]
            use crate::mes::{self, AField, Frame, QField};

            /// The opcode.
            pub const OPCODE: u8 = mes::op::$opcode;
            /// First of the four dwords that hold address and value of the completion fence.
            pub const STATUS: usize = $status;
            $(
                #[doc = concat!("Dword ", $dw, ", bits ", $high, ":", $low, ".")]
                $(#[$wmeta])*
                pub const $word: DwField = DwField::new(stringify!($word), $dw, $high, $low);
            )*
            $(
                #[doc = concat!("Dwords ", $qdw, " and the next.")]
                $(#[$qmeta])*
                pub const $quad: QField = QField { name: stringify!($quad), dw: $qdw };
            )*
            $($(
                #[doc = concat!("From dword ", $adw, " on.")]
                $(#[$ameta])*
                pub const $array: AField =
                    AField { name: stringify!($array), dw: $adw, len: $len };
            )*)?
            /// Layout of the frame.
            pub const FRAME: Frame = Frame {
                name: frame!(@name $opcode $($misc)?),
                opcode: OPCODE,
                misc: frame!(@misc $($misc)?),
                status: STATUS,
                words: &[$($word),*],
                quads: &[$($quad),*],
                arrays: &[$($($array),*)?],
            };
        }
    };
    (@name $opcode:ident) => { stringify!($opcode) };
    (@name $opcode:ident $misc:ident) => { stringify!($misc) };
    (@misc) => { None };
    (@misc $misc:ident) => { Some(mes::misc_op::$misc) };
}

mod frame;
mod misc;

pub use frame::*;
pub use misc::*;

/// All frames described here.
pub const FRAMES: &[Frame] = &[
    set_hw_rsrc::FRAME,
    set_hw_rsrc_1::FRAME,
    add_queue::FRAME,
    remove_queue::FRAME,
    suspend::FRAME,
    resume::FRAME,
    reset::FRAME,
    query_scheduler_status::FRAME,
    update_root_page_table::FRAME,
    inv_tlbs::FRAME,
    misc_write_reg::FRAME,
    misc_inv_gart::FRAME,
    misc_query_status::FRAME,
    misc_read_reg::FRAME,
    misc_wait_reg_mem::FRAME,
    misc_set_shader_debugger::FRAME,
    misc_notify_work_on_unmapped_queue::FRAME,
    misc_change_config::FRAME,
];

/// Returns the layout of the frame in `words`, or `None` if it is not in [`FRAMES`].
pub fn shape(words: &[u32; FRAME_DWORDS]) -> Option<&'static Frame> {
    let opcode = HEADER_OPCODE.get(words[0]) as u8;
    let misc = words[misc_write_reg::MISC_OPCODE.dw];
    FRAMES
        .iter()
        .find(|f| f.opcode == opcode && f.misc.is_none_or(|m| u32::from(m) == misc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        for frame in FRAMES {
            let mut seen = [0u32; FRAME_DWORDS];
            let mut take = |name: &str, dw: usize, mask: u32| {
                assert!((1..FRAME_DWORDS).contains(&dw), "{}.{name}", frame.name);
                assert_eq!(seen[dw] & mask, 0, "{}.{name}", frame.name);
                seen[dw] |= mask;
            };
            for f in frame.words {
                take(f.name, f.dw, f.field.mask);
            }
            for f in frame.quads {
                assert_eq!(
                    f.dw % 2,
                    0,
                    "{}.{} is not 8-byte aligned",
                    frame.name,
                    f.name
                );
                take(f.name, f.dw, !0);
                take(f.name, f.dw + 1, !0);
            }
            for f in frame.arrays {
                (0..f.len).for_each(|n| take(f.name, f.dw + n, !0));
            }
            (0..STATUS_DWORDS).for_each(|n| take("api_status", frame.status + n, !0));
            for (dw, bits) in seen.iter().enumerate().skip(1) {
                assert_eq!(frame.undefined(dw), !bits, "{} dword {dw}", frame.name);
            }
        }
    }

    #[test]
    fn error_word_round_trips_and_success_decodes_to_none() {
        for n in 0..=255u8 {
            let error = ErrorWord {
                code: n,
                opcode: op::ADD_QUEUE,
                misc: n / 2,
                category: error_category::SCHEDULING,
            };
            assert_eq!(ErrorWord::decode(error.encode()), Some(error));
        }
        assert_eq!(ErrorWord::decode(1), None);
        assert_eq!(ErrorWord::decode(0), None);
        assert_eq!(ErrorWord::decode(1 | (1 << 63)), None);
    }

    #[test]
    fn shape_finds_frame_and_each_reads_its_fields() {
        use add_queue as aq;
        let mut words = [0; FRAME_DWORDS];
        words[0] = header(op::ADD_QUEUE);
        assert_eq!(words[0], 0x4_0021);
        aq::MQD_ADDR.set(&mut words, 0x1_2345_6000);
        aq::TRAP_EN.set(&mut words, 1);
        let frame = shape(&words).unwrap();
        assert_eq!(frame.name, "ADD_QUEUE");
        let mut seen = Vec::new();
        frame.each(&words, |name, n, value| {
            seen.push((name.to_string(), n, value))
        });
        let want = [("MQD_ADDR", 0x1_2345_6000), ("TRAP_EN", 1)];
        assert_eq!(seen, want.map(|(n, v)| (n.to_string(), None, v)));
        words[0] = header(op::MISC);
        words[1] = misc_op::READ_REG.into();
        assert_eq!(shape(&words).unwrap().name, "READ_REG");
        words[1] = 99;
        assert!(shape(&words).is_none());
    }
}
