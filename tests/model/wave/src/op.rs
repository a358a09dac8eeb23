// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Opcode tables of gfx942: number, mnemonic and operand types, by encoding. Instructions that only
//! gfx1201 has follow; its tables are in [`gfx1201`].
//!
//! VOP1, VOP2 and VOPC instructions also exist in the VOP3 encoding; `vop3` lists only those
//! without another encoding. Comparisons (VOPC) are decoded by field in [`crate::decode`], memory
//! instructions in `decode/{lds,vmem}.rs`.

pub(crate) mod gfx1201;

/// Operand type: width in registers, interpretation of inline constants, and valid modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    /// No operand.
    None,
    /// 16-bit integer in the low half of a register.
    B16,
    /// f16 in the low half of a register.
    F16,
    /// bf16 in the low half of a register.
    Bf16,
    /// Two 16-bit integers.
    P16,
    /// Two f16.
    H16,
    /// Two bf16.
    Pb16,
    /// Two f16, of which a constant is both.
    Both16,
    /// Two bf16, of which a constant is both.
    BothB16,
    /// f32 or f16, selected by the `op_sel_hi` bit of the operand (`v_fma_mix`).
    Mix,
    /// 32 bits.
    B32,
    /// f32.
    F32,
    /// 64 bits.
    B64,
    /// f64.
    F64,
    /// Two f32.
    F32x2,
    /// One bit per lane in a scalar register pair (one register for wave32).
    Mask,
    /// Scalar register as the destination of a vector instruction.
    Sgpr,
    /// Accumulator.
    Acc,
    /// 3 registers.
    W3,
    /// 4 registers.
    W4,
    /// 4 registers of f16.
    H4,
    /// 4 registers of bf16.
    Bf4,
    /// 8 registers.
    W8,
    /// 16 registers.
    W16,
    /// 32 registers.
    W32,
}

impl Ty {
    /// Returns the type of a source of `v_fma_mix`, of which `is_half` is the bit of `op_sel_hi`.
    pub(crate) fn mixed(self, is_half: bool) -> Ty {
        match (self, is_half) {
            (Ty::Mix, true) => Ty::F16,
            (Ty::Mix, false) => Ty::F32,
            _ => self,
        }
    }

    /// Returns the number of registers.
    pub(crate) fn regs(self) -> u16 {
        match self {
            Ty::None => 0,
            Ty::B64 | Ty::F64 | Ty::F32x2 | Ty::Mask => 2,
            Ty::W3 => 3,
            Ty::W4 | Ty::H4 | Ty::Bf4 => 4,
            Ty::W8 => 8,
            Ty::W16 => 16,
            Ty::W32 => 32,
            _ => 1,
        }
    }
}

/// Table entry of an opcode.
#[derive(Debug)]
pub(crate) struct Info {
    /// Instruction.
    pub(crate) op: Op,
    /// Mnemonic without the encoding's suffix.
    pub(crate) name: &'static str,
    /// Destination.
    pub(crate) dst: Ty,
    /// Sources.
    pub(crate) src: &'static [Ty],
}

macro_rules! opcodes {
    ($( $enc:ident { $( $code:literal $name:ident $dst:ident [$($src:ident)*], )* } )*
        ; $( $other:ident )*) => {
        /// Instruction by mnemonic, spelt as in the ISA manual.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Op { $( $( $name, )* )* $( $other, )* }

        /// Number of instructions.
        pub(crate) const OPS: usize = [$( $( Op::$name, )* )* $( Op::$other, )*].len();

        $(
            /// Returns the entry of opcode `code` of this encoding.
            pub(crate) fn $enc(code: u16) -> Option<&'static Info> {
                match code {
                    $( $code => Some(const {
                        &Info {
                            op: Op::$name,
                            name: stringify!($name),
                            dst: Ty::$dst,
                            src: &[$(Ty::$src),*],
                        }
                    }), )*
                    _ => None,
                }
            }
        )*
    };
}

opcodes! {
    sop2 {
        0x00 s_add_u32 B32 [B32 B32], 0x01 s_sub_u32 B32 [B32 B32], 0x02 s_add_i32 B32 [B32 B32],
        0x03 s_sub_i32 B32 [B32 B32], 0x04 s_addc_u32 B32 [B32 B32], 0x05 s_subb_u32 B32 [B32 B32],
        0x06 s_min_i32 B32 [B32 B32], 0x07 s_min_u32 B32 [B32 B32], 0x08 s_max_i32 B32 [B32 B32],
        0x09 s_max_u32 B32 [B32 B32], 0x0a s_cselect_b32 B32 [B32 B32],
        0x0b s_cselect_b64 B64 [B64 B64], 0x0c s_and_b32 B32 [B32 B32],
        0x0d s_and_b64 B64 [B64 B64], 0x0e s_or_b32 B32 [B32 B32], 0x0f s_or_b64 B64 [B64 B64],
        0x10 s_xor_b32 B32 [B32 B32], 0x11 s_xor_b64 B64 [B64 B64], 0x12 s_andn2_b32 B32 [B32 B32],
        0x13 s_andn2_b64 B64 [B64 B64], 0x14 s_orn2_b32 B32 [B32 B32],
        0x15 s_orn2_b64 B64 [B64 B64], 0x16 s_nand_b32 B32 [B32 B32],
        0x17 s_nand_b64 B64 [B64 B64], 0x18 s_nor_b32 B32 [B32 B32], 0x19 s_nor_b64 B64 [B64 B64],
        0x1a s_xnor_b32 B32 [B32 B32], 0x1b s_xnor_b64 B64 [B64 B64],
        0x1c s_lshl_b32 B32 [B32 B32], 0x1d s_lshl_b64 B64 [B64 B32],
        0x1e s_lshr_b32 B32 [B32 B32], 0x1f s_lshr_b64 B64 [B64 B32],
        0x20 s_ashr_i32 B32 [B32 B32], 0x21 s_ashr_i64 B64 [B64 B32], 0x22 s_bfm_b32 B32 [B32 B32],
        0x23 s_bfm_b64 B64 [B32 B32], 0x24 s_mul_i32 B32 [B32 B32], 0x25 s_bfe_u32 B32 [B32 B32],
        0x26 s_bfe_i32 B32 [B32 B32], 0x27 s_bfe_u64 B64 [B64 B32], 0x28 s_bfe_i64 B64 [B64 B32],
        0x29 s_cbranch_g_fork None [B64 B64], 0x2a s_absdiff_i32 B32 [B32 B32],
        0x2b s_rfe_restore_b64 None [B64 B64], 0x2c s_mul_hi_u32 B32 [B32 B32],
        0x2d s_mul_hi_i32 B32 [B32 B32], 0x2e s_lshl1_add_u32 B32 [B32 B32],
        0x2f s_lshl2_add_u32 B32 [B32 B32], 0x30 s_lshl3_add_u32 B32 [B32 B32],
        0x31 s_lshl4_add_u32 B32 [B32 B32], 0x32 s_pack_ll_b32_b16 B32 [B32 B32],
        0x33 s_pack_lh_b32_b16 B32 [B32 B32], 0x34 s_pack_hh_b32_b16 B32 [B32 B32],
    }
    sopk {
        0x00 s_movk_i32 B32 [], 0x01 s_cmovk_i32 B32 [], 0x02 s_cmpk_eq_i32 B32 [],
        0x03 s_cmpk_lg_i32 B32 [], 0x04 s_cmpk_gt_i32 B32 [], 0x05 s_cmpk_ge_i32 B32 [],
        0x06 s_cmpk_lt_i32 B32 [], 0x07 s_cmpk_le_i32 B32 [], 0x08 s_cmpk_eq_u32 B32 [],
        0x09 s_cmpk_lg_u32 B32 [], 0x0a s_cmpk_gt_u32 B32 [], 0x0b s_cmpk_ge_u32 B32 [],
        0x0c s_cmpk_lt_u32 B32 [], 0x0d s_cmpk_le_u32 B32 [], 0x0e s_addk_i32 B32 [],
        0x0f s_mulk_i32 B32 [], 0x10 s_cbranch_i_fork B32 [], 0x11 s_getreg_b32 B32 [],
        0x12 s_setreg_b32 B32 [], 0x14 s_setreg_imm32_b32 B32 [],
        0x15 s_call_b64 B64 [],
    }
    sop1 {
        0x00 s_mov_b32 B32 [B32], 0x01 s_mov_b64 B64 [B64], 0x02 s_cmov_b32 B32 [B32],
        0x03 s_cmov_b64 B64 [B64], 0x04 s_not_b32 B32 [B32], 0x05 s_not_b64 B64 [B64],
        0x06 s_wqm_b32 B32 [B32], 0x07 s_wqm_b64 B64 [B64], 0x08 s_brev_b32 B32 [B32],
        0x09 s_brev_b64 B64 [B64], 0x0a s_bcnt0_i32_b32 B32 [B32], 0x0b s_bcnt0_i32_b64 B32 [B64],
        0x0c s_bcnt1_i32_b32 B32 [B32], 0x0d s_bcnt1_i32_b64 B32 [B64],
        0x0e s_ff0_i32_b32 B32 [B32], 0x0f s_ff0_i32_b64 B32 [B64], 0x10 s_ff1_i32_b32 B32 [B32],
        0x11 s_ff1_i32_b64 B32 [B64], 0x12 s_flbit_i32_b32 B32 [B32],
        0x13 s_flbit_i32_b64 B32 [B64], 0x14 s_flbit_i32 B32 [B32], 0x15 s_flbit_i32_i64 B32 [B64],
        0x16 s_sext_i32_i8 B32 [B32], 0x17 s_sext_i32_i16 B32 [B32], 0x18 s_bitset0_b32 B32 [B32],
        0x19 s_bitset0_b64 B64 [B32], 0x1a s_bitset1_b32 B32 [B32], 0x1b s_bitset1_b64 B64 [B32],
        0x1c s_getpc_b64 B64 [], 0x1d s_setpc_b64 None [B64], 0x1e s_swappc_b64 B64 [B64],
        0x1f s_rfe_b64 None [B64], 0x20 s_and_saveexec_b64 B64 [B64],
        0x21 s_or_saveexec_b64 B64 [B64], 0x22 s_xor_saveexec_b64 B64 [B64],
        0x23 s_andn2_saveexec_b64 B64 [B64], 0x24 s_orn2_saveexec_b64 B64 [B64],
        0x25 s_nand_saveexec_b64 B64 [B64], 0x26 s_nor_saveexec_b64 B64 [B64],
        0x27 s_xnor_saveexec_b64 B64 [B64], 0x28 s_quadmask_b32 B32 [B32],
        0x29 s_quadmask_b64 B64 [B64], 0x2a s_movrels_b32 B32 [B32], 0x2b s_movrels_b64 B64 [B64],
        0x2c s_movreld_b32 B32 [B32], 0x2d s_movreld_b64 B64 [B64], 0x2e s_cbranch_join None [B32],
        0x30 s_abs_i32 B32 [B32], 0x32 s_set_gpr_idx_idx None [B32],
        0x33 s_andn1_saveexec_b64 B64 [B64], 0x34 s_orn1_saveexec_b64 B64 [B64],
        0x35 s_andn1_wrexec_b64 B64 [B64], 0x36 s_andn2_wrexec_b64 B64 [B64],
        0x37 s_bitreplicate_b64_b32 B64 [B32],
    }
    sopc {
        0x00 s_cmp_eq_i32 None [B32 B32], 0x01 s_cmp_lg_i32 None [B32 B32],
        0x02 s_cmp_gt_i32 None [B32 B32], 0x03 s_cmp_ge_i32 None [B32 B32],
        0x04 s_cmp_lt_i32 None [B32 B32], 0x05 s_cmp_le_i32 None [B32 B32],
        0x06 s_cmp_eq_u32 None [B32 B32], 0x07 s_cmp_lg_u32 None [B32 B32],
        0x08 s_cmp_gt_u32 None [B32 B32], 0x09 s_cmp_ge_u32 None [B32 B32],
        0x0a s_cmp_lt_u32 None [B32 B32], 0x0b s_cmp_le_u32 None [B32 B32],
        0x0c s_bitcmp0_b32 None [B32 B32], 0x0d s_bitcmp1_b32 None [B32 B32],
        0x0e s_bitcmp0_b64 None [B64 B32], 0x0f s_bitcmp1_b64 None [B64 B32],
        0x10 s_setvskip None [B32 B32], 0x11 s_set_gpr_idx_on None [B32],
        0x12 s_cmp_eq_u64 None [B64 B64], 0x13 s_cmp_lg_u64 None [B64 B64],
    }
    sopp {
        0x00 s_nop None [], 0x01 s_endpgm None [], 0x02 s_branch None [], 0x03 s_wakeup None [],
        0x04 s_cbranch_scc0 None [], 0x05 s_cbranch_scc1 None [], 0x06 s_cbranch_vccz None [],
        0x07 s_cbranch_vccnz None [], 0x08 s_cbranch_execz None [], 0x09 s_cbranch_execnz None [],
        0x0a s_barrier None [], 0x0b s_setkill None [], 0x0c s_waitcnt None [],
        0x0d s_sethalt None [], 0x0e s_sleep None [], 0x0f s_setprio None [],
        0x10 s_sendmsg None [], 0x11 s_sendmsghalt None [], 0x12 s_trap None [],
        0x13 s_icache_inv None [], 0x14 s_incperflevel None [], 0x15 s_decperflevel None [],
        0x16 s_ttracedata None [], 0x17 s_cbranch_cdbgsys None [], 0x18 s_cbranch_cdbguser None [],
        0x19 s_cbranch_cdbgsys_or_user None [], 0x1a s_cbranch_cdbgsys_and_user None [],
        0x1b s_endpgm_saved None [], 0x1c s_set_gpr_idx_off None [],
        0x1d s_set_gpr_idx_mode None [], 0x1e s_endpgm_ordered_ps_done None [],
    }
    smem {
        0x00 s_load_dword B32 [B64], 0x01 s_load_dwordx2 B64 [B64], 0x02 s_load_dwordx4 W4 [B64],
        0x03 s_load_dwordx8 W8 [B64], 0x04 s_load_dwordx16 W16 [B64],
        0x05 s_scratch_load_dword B32 [B64], 0x06 s_scratch_load_dwordx2 B64 [B64],
        0x07 s_scratch_load_dwordx4 W4 [B64], 0x08 s_buffer_load_dword B32 [B64],
        0x09 s_buffer_load_dwordx2 B64 [B64], 0x0a s_buffer_load_dwordx4 W4 [B64],
        0x0b s_buffer_load_dwordx8 W8 [B64], 0x0c s_buffer_load_dwordx16 W16 [B64],
        0x10 s_store_dword B32 [B64], 0x11 s_store_dwordx2 B64 [B64],
        0x12 s_store_dwordx4 W4 [B64], 0x15 s_scratch_store_dword B32 [B64],
        0x16 s_scratch_store_dwordx2 B64 [B64], 0x17 s_scratch_store_dwordx4 W4 [B64],
        0x18 s_buffer_store_dword B32 [B64], 0x19 s_buffer_store_dwordx2 B64 [B64],
        0x1a s_buffer_store_dwordx4 W4 [B64], 0x20 s_dcache_inv None [B64],
        0x21 s_dcache_wb None [B64], 0x22 s_dcache_inv_vol None [B64],
        0x23 s_dcache_wb_vol None [B64], 0x24 s_memtime B64 [B64], 0x25 s_memrealtime B64 [B64],
        0x26 s_atc_probe None [B64], 0x27 s_atc_probe_buffer None [B64],
        0x28 s_dcache_discard None [B64], 0x29 s_dcache_discard_x2 None [B64],
    }
    vop2 {
        0x00 v_cndmask_b32 B32 [B32 B32 Mask], 0x01 v_add_f32 F32 [F32 F32],
        0x02 v_sub_f32 F32 [F32 F32], 0x03 v_subrev_f32 F32 [F32 F32],
        0x04 v_fmac_f64 F64 [F64 F64], 0x05 v_mul_f32 F32 [F32 F32],
        0x06 v_mul_i32_i24 B32 [B32 B32], 0x07 v_mul_hi_i32_i24 B32 [B32 B32],
        0x08 v_mul_u32_u24 B32 [B32 B32], 0x09 v_mul_hi_u32_u24 B32 [B32 B32],
        0x0a v_min_f32 F32 [F32 F32], 0x0b v_max_f32 F32 [F32 F32], 0x0c v_min_i32 B32 [B32 B32],
        0x0d v_max_i32 B32 [B32 B32], 0x0e v_min_u32 B32 [B32 B32], 0x0f v_max_u32 B32 [B32 B32],
        0x10 v_lshrrev_b32 B32 [B32 B32], 0x11 v_ashrrev_i32 B32 [B32 B32],
        0x12 v_lshlrev_b32 B32 [B32 B32], 0x13 v_and_b32 B32 [B32 B32],
        0x14 v_or_b32 B32 [B32 B32], 0x15 v_xor_b32 B32 [B32 B32],
        0x17 v_fmamk_f32 F32 [F32 F32 F32], 0x18 v_fmaak_f32 F32 [F32 F32 F32],
        0x19 v_add_co_u32 B32 [B32 B32], 0x1a v_sub_co_u32 B32 [B32 B32],
        0x1b v_subrev_co_u32 B32 [B32 B32], 0x1c v_addc_co_u32 B32 [B32 B32 Mask],
        0x1d v_subb_co_u32 B32 [B32 B32 Mask], 0x1e v_subbrev_co_u32 B32 [B32 B32 Mask],
        0x1f v_add_f16 F16 [F16 F16], 0x20 v_sub_f16 F16 [F16 F16],
        0x21 v_subrev_f16 F16 [F16 F16], 0x22 v_mul_f16 F16 [F16 F16],
        0x23 v_mac_f16 F16 [F16 F16], 0x24 v_madmk_f16 F16 [F16 F16 F16],
        0x25 v_madak_f16 F16 [F16 F16 F16], 0x26 v_add_u16 B16 [B16 B16],
        0x27 v_sub_u16 B16 [B16 B16], 0x28 v_subrev_u16 B16 [B16 B16],
        0x29 v_mul_lo_u16 B16 [B16 B16], 0x2a v_lshlrev_b16 B16 [B16 B16],
        0x2b v_lshrrev_b16 B16 [B16 B16], 0x2c v_ashrrev_i16 B16 [B16 B16],
        0x2d v_max_f16 F16 [F16 F16], 0x2e v_min_f16 F16 [F16 F16], 0x2f v_max_u16 B16 [B16 B16],
        0x30 v_max_i16 B16 [B16 B16], 0x31 v_min_u16 B16 [B16 B16], 0x32 v_min_i16 B16 [B16 B16],
        0x33 v_ldexp_f16 F16 [F16 B16], 0x34 v_add_u32 B32 [B32 B32], 0x35 v_sub_u32 B32 [B32 B32],
        0x36 v_subrev_u32 B32 [B32 B32], 0x37 v_dot2c_f32_f16 F32 [H16 H16],
        0x38 v_dot2c_i32_i16 B32 [P16 P16], 0x39 v_dot4c_i32_i8 B32 [B32 B32],
        0x3a v_dot8c_i32_i4 B32 [B32 B32], 0x3b v_fmac_f32 F32 [F32 F32],
        0x3c v_pk_fmac_f16 H16 [H16 H16], 0x3d v_xnor_b32 B32 [B32 B32],
    }
    vop1 {
        0x00 v_nop None [], 0x01 v_mov_b32 B32 [B32], 0x02 v_readfirstlane_b32 Sgpr [B32],
        0x03 v_cvt_i32_f64 B32 [F64], 0x04 v_cvt_f64_i32 F64 [B32], 0x05 v_cvt_f32_i32 F32 [B32],
        0x06 v_cvt_f32_u32 F32 [B32], 0x07 v_cvt_u32_f32 B32 [F32], 0x08 v_cvt_i32_f32 B32 [F32],
        0x0a v_cvt_f16_f32 F16 [F32], 0x0b v_cvt_f32_f16 F32 [F16],
        0x0c v_cvt_rpi_i32_f32 B32 [F32], 0x0d v_cvt_flr_i32_f32 B32 [F32],
        0x0e v_cvt_off_f32_i4 F32 [B32], 0x0f v_cvt_f32_f64 F32 [F64],
        0x10 v_cvt_f64_f32 F64 [F32], 0x11 v_cvt_f32_ubyte0 F32 [B32],
        0x12 v_cvt_f32_ubyte1 F32 [B32], 0x13 v_cvt_f32_ubyte2 F32 [B32],
        0x14 v_cvt_f32_ubyte3 F32 [B32], 0x15 v_cvt_u32_f64 B32 [F64],
        0x16 v_cvt_f64_u32 F64 [B32], 0x17 v_trunc_f64 F64 [F64], 0x18 v_ceil_f64 F64 [F64],
        0x19 v_rndne_f64 F64 [F64], 0x1a v_floor_f64 F64 [F64], 0x1b v_fract_f32 F32 [F32],
        0x1c v_trunc_f32 F32 [F32], 0x1d v_ceil_f32 F32 [F32], 0x1e v_rndne_f32 F32 [F32],
        0x1f v_floor_f32 F32 [F32], 0x20 v_exp_f32 F32 [F32], 0x21 v_log_f32 F32 [F32],
        0x22 v_rcp_f32 F32 [F32], 0x23 v_rcp_iflag_f32 F32 [F32], 0x24 v_rsq_f32 F32 [F32],
        0x25 v_rcp_f64 F64 [F64], 0x26 v_rsq_f64 F64 [F64], 0x27 v_sqrt_f32 F32 [F32],
        0x28 v_sqrt_f64 F64 [F64], 0x29 v_sin_f32 F32 [F32], 0x2a v_cos_f32 F32 [F32],
        0x2b v_not_b32 B32 [B32], 0x2c v_bfrev_b32 B32 [B32], 0x2d v_ffbh_u32 B32 [B32],
        0x2e v_ffbl_b32 B32 [B32], 0x2f v_ffbh_i32 B32 [B32], 0x30 v_frexp_exp_i32_f64 B32 [F64],
        0x31 v_frexp_mant_f64 F64 [F64], 0x32 v_fract_f64 F64 [F64],
        0x33 v_frexp_exp_i32_f32 B32 [F32], 0x34 v_frexp_mant_f32 F32 [F32],
        0x35 v_clrexcp None [], 0x37 v_screen_partition_4se_b32 B32 [B32], 0x38 v_mov_b64 B64 [B64],
        0x39 v_cvt_f16_u16 F16 [B16], 0x3a v_cvt_f16_i16 F16 [B16], 0x3b v_cvt_u16_f16 B16 [F16],
        0x3c v_cvt_i16_f16 B16 [F16], 0x3d v_rcp_f16 F16 [F16], 0x3e v_sqrt_f16 F16 [F16],
        0x3f v_rsq_f16 F16 [F16], 0x40 v_log_f16 F16 [F16], 0x41 v_exp_f16 F16 [F16],
        0x42 v_frexp_mant_f16 F16 [F16], 0x43 v_frexp_exp_i16_f16 B16 [F16],
        0x44 v_floor_f16 F16 [F16], 0x45 v_ceil_f16 F16 [F16], 0x46 v_trunc_f16 F16 [F16],
        0x47 v_rndne_f16 F16 [F16], 0x48 v_fract_f16 F16 [F16], 0x49 v_sin_f16 F16 [F16],
        0x4a v_cos_f16 F16 [F16], 0x4b v_exp_legacy_f32 F32 [F32], 0x4c v_log_legacy_f32 F32 [F32],
        0x4d v_cvt_norm_i16_f16 B16 [F16], 0x4e v_cvt_norm_u16_f16 B16 [F16],
        0x4f v_sat_pk_u8_i16 B16 [B32], 0x51 v_swap_b32 B32 [B32],
        0x52 v_accvgpr_mov_b32 Acc [Acc], 0x54 v_cvt_f32_fp8 F32 [B32],
        0x55 v_cvt_f32_bf8 F32 [B32], 0x56 v_cvt_pk_f32_fp8 B64 [B32],
        0x57 v_cvt_pk_f32_bf8 B64 [B32],
    }
    vop3 {
        0x1c2 v_mad_i32_i24 B32 [B32 B32 B32], 0x1c3 v_mad_u32_u24 B32 [B32 B32 B32],
        0x1c4 v_cubeid_f32 F32 [F32 F32 F32], 0x1c5 v_cubesc_f32 F32 [F32 F32 F32],
        0x1c6 v_cubetc_f32 F32 [F32 F32 F32], 0x1c7 v_cubema_f32 F32 [F32 F32 F32],
        0x1c8 v_bfe_u32 B32 [B32 B32 B32], 0x1c9 v_bfe_i32 B32 [B32 B32 B32],
        0x1ca v_bfi_b32 B32 [B32 B32 B32], 0x1cb v_fma_f32 F32 [F32 F32 F32],
        0x1cc v_fma_f64 F64 [F64 F64 F64], 0x1cd v_lerp_u8 B32 [B32 B32 B32],
        0x1ce v_alignbit_b32 B32 [B32 B32 B32], 0x1cf v_alignbyte_b32 B32 [B32 B32 B32],
        0x1d0 v_min3_f32 F32 [F32 F32 F32], 0x1d1 v_min3_i32 B32 [B32 B32 B32],
        0x1d2 v_min3_u32 B32 [B32 B32 B32], 0x1d3 v_max3_f32 F32 [F32 F32 F32],
        0x1d4 v_max3_i32 B32 [B32 B32 B32], 0x1d5 v_max3_u32 B32 [B32 B32 B32],
        0x1d6 v_med3_f32 F32 [F32 F32 F32], 0x1d7 v_med3_i32 B32 [B32 B32 B32],
        0x1d8 v_med3_u32 B32 [B32 B32 B32], 0x1d9 v_sad_u8 B32 [B32 B32 B32],
        0x1da v_sad_hi_u8 B32 [B32 B32 B32], 0x1db v_sad_u16 B32 [B32 B32 B32],
        0x1dc v_sad_u32 B32 [B32 B32 B32], 0x1dd v_cvt_pk_u8_f32 B32 [F32 B32 B32],
        0x1de v_div_fixup_f32 F32 [F32 F32 F32], 0x1df v_div_fixup_f64 F64 [F64 F64 F64],
        0x1e0 v_div_scale_f32 F32 [F32 F32 F32], 0x1e1 v_div_scale_f64 F64 [F64 F64 F64],
        0x1e2 v_div_fmas_f32 F32 [F32 F32 F32], 0x1e3 v_div_fmas_f64 F64 [F64 F64 F64],
        0x1e4 v_msad_u8 B32 [B32 B32 B32], 0x1e5 v_qsad_pk_u16_u8 B64 [B64 B32 B64],
        0x1e6 v_mqsad_pk_u16_u8 B64 [B64 B32 B64], 0x1e7 v_mqsad_u32_u8 W4 [B64 B32 W4],
        0x1e8 v_mad_u64_u32 B64 [B32 B32 B64], 0x1e9 v_mad_i64_i32 B64 [B32 B32 B64],
        0x1ea v_mad_legacy_f16 F16 [F16 F16 F16], 0x1eb v_mad_legacy_u16 B16 [B16 B16 B16],
        0x1ec v_mad_legacy_i16 B16 [B16 B16 B16], 0x1ed v_perm_b32 B32 [B32 B32 B32],
        0x1ee v_fma_legacy_f16 F16 [F16 F16 F16], 0x1ef v_div_fixup_legacy_f16 F16 [F16 F16 F16],
        0x1f0 v_cvt_pkaccum_u8_f32 B32 [F32 B32], 0x1f1 v_mad_u32_u16 B32 [B16 B16 B32],
        0x1f2 v_mad_i32_i16 B32 [B16 B16 B32], 0x1f3 v_xad_u32 B32 [B32 B32 B32],
        0x1f4 v_min3_f16 F16 [F16 F16 F16], 0x1f5 v_min3_i16 B16 [B16 B16 B16],
        0x1f6 v_min3_u16 B16 [B16 B16 B16], 0x1f7 v_max3_f16 F16 [F16 F16 F16],
        0x1f8 v_max3_i16 B16 [B16 B16 B16], 0x1f9 v_max3_u16 B16 [B16 B16 B16],
        0x1fa v_med3_f16 F16 [F16 F16 F16], 0x1fb v_med3_i16 B16 [B16 B16 B16],
        0x1fc v_med3_u16 B16 [B16 B16 B16], 0x1fd v_lshl_add_u32 B32 [B32 B32 B32],
        0x1fe v_add_lshl_u32 B32 [B32 B32 B32], 0x1ff v_add3_u32 B32 [B32 B32 B32],
        0x200 v_lshl_or_b32 B32 [B32 B32 B32], 0x201 v_and_or_b32 B32 [B32 B32 B32],
        0x202 v_or3_b32 B32 [B32 B32 B32], 0x203 v_mad_f16 F16 [F16 F16 F16],
        0x204 v_mad_u16 B16 [B16 B16 B16], 0x205 v_mad_i16 B16 [B16 B16 B16],
        0x206 v_fma_f16 F16 [F16 F16 F16], 0x207 v_div_fixup_f16 F16 [F16 F16 F16],
        0x208 v_lshl_add_u64 B64 [B64 B32 B64], 0x280 v_add_f64 F64 [F64 F64],
        0x281 v_mul_f64 F64 [F64 F64], 0x282 v_min_f64 F64 [F64 F64],
        0x283 v_max_f64 F64 [F64 F64], 0x284 v_ldexp_f64 F64 [F64 B32],
        0x285 v_mul_lo_u32 B32 [B32 B32], 0x286 v_mul_hi_u32 B32 [B32 B32],
        0x287 v_mul_hi_i32 B32 [B32 B32], 0x288 v_ldexp_f32 F32 [F32 B32],
        0x289 v_readlane_b32 Sgpr [B32 B32], 0x28a v_writelane_b32 B32 [B32 B32],
        0x28b v_bcnt_u32_b32 B32 [B32 B32], 0x28c v_mbcnt_lo_u32_b32 B32 [B32 B32],
        0x28d v_mbcnt_hi_u32_b32 B32 [B32 B32], 0x28f v_lshlrev_b64 B64 [B32 B64],
        0x290 v_lshrrev_b64 B64 [B32 B64], 0x291 v_ashrrev_i64 B64 [B32 B64],
        0x292 v_trig_preop_f64 F64 [F64 B32], 0x293 v_bfm_b32 B32 [B32 B32],
        0x294 v_cvt_pknorm_i16_f32 B32 [F32 F32], 0x295 v_cvt_pknorm_u16_f32 B32 [F32 F32],
        0x296 v_cvt_pkrtz_f16_f32 B32 [F32 F32], 0x297 v_cvt_pk_u16_u32 B32 [B32 B32],
        0x298 v_cvt_pk_i16_i32 B32 [B32 B32], 0x299 v_cvt_pknorm_i16_f16 B32 [F16 F16],
        0x29a v_cvt_pknorm_u16_f16 B32 [F16 F16], 0x29c v_add_i32 B32 [B32 B32],
        0x29d v_sub_i32 B32 [B32 B32], 0x29e v_add_i16 B16 [B16 B16],
        0x29f v_sub_i16 B16 [B16 B16], 0x2a0 v_pack_b32_f16 B32 [F16 F16],
        0x2a1 v_mul_legacy_f32 F32 [F32 F32], 0x2a2 v_cvt_pk_fp8_f32 B32 [F32 F32],
        0x2a3 v_cvt_pk_bf8_f32 B32 [F32 F32], 0x2a4 v_cvt_sr_fp8_f32 B32 [F32 B32],
        0x2a5 v_cvt_sr_bf8_f32 B32 [F32 B32],
    }
    vop3p {
        0x00 v_pk_mad_i16 P16 [P16 P16 P16], 0x01 v_pk_mul_lo_u16 P16 [P16 P16],
        0x02 v_pk_add_i16 P16 [P16 P16], 0x03 v_pk_sub_i16 P16 [P16 P16],
        0x04 v_pk_lshlrev_b16 P16 [P16 P16], 0x05 v_pk_lshrrev_b16 P16 [P16 P16],
        0x06 v_pk_ashrrev_i16 P16 [P16 P16], 0x07 v_pk_max_i16 P16 [P16 P16],
        0x08 v_pk_min_i16 P16 [P16 P16], 0x09 v_pk_mad_u16 P16 [P16 P16 P16],
        0x0a v_pk_add_u16 P16 [P16 P16], 0x0b v_pk_sub_u16 P16 [P16 P16],
        0x0c v_pk_max_u16 P16 [P16 P16], 0x0d v_pk_min_u16 P16 [P16 P16],
        0x0e v_pk_fma_f16 H16 [H16 H16 H16], 0x0f v_pk_add_f16 H16 [H16 H16],
        0x10 v_pk_mul_f16 H16 [H16 H16], 0x11 v_pk_min_f16 H16 [H16 H16],
        0x12 v_pk_max_f16 H16 [H16 H16], 0x20 v_fma_mix_f32 F32 [Mix Mix Mix],
        0x21 v_fma_mixlo_f16 B32 [Mix Mix Mix], 0x22 v_fma_mixhi_f16 B32 [Mix Mix Mix],
        0x23 v_dot2_f32_f16 F32 [H16 H16 F32], 0x26 v_dot2_i32_i16 B32 [P16 P16 B32],
        0x27 v_dot2_u32_u16 B32 [P16 P16 B32], 0x28 v_dot4_i32_i8 B32 [B32 B32 B32],
        0x29 v_dot4_u32_u8 B32 [B32 B32 B32], 0x2a v_dot8_i32_i4 B32 [B32 B32 B32],
        0x2b v_dot8_u32_u4 B32 [B32 B32 B32], 0x30 v_pk_fma_f32 F32x2 [F32x2 F32x2 F32x2],
        0x31 v_pk_mul_f32 F32x2 [F32x2 F32x2], 0x32 v_pk_add_f32 F32x2 [F32x2 F32x2],
        0x33 v_pk_mov_b32 F32x2 [F32x2 F32x2], 0x3e v_mfma_f32_16x16x8_xf32 W4 [B64 B64 W4],
        0x3f v_mfma_f32_32x32x4_xf32 W16 [B64 B64 W16],
        0x40 v_mfma_f32_32x32x1_2b_f32 W32 [F32 F32 W32],
        0x41 v_mfma_f32_16x16x1_4b_f32 W16 [F32 F32 W16],
        0x42 v_mfma_f32_4x4x1_16b_f32 W4 [F32 F32 W4],
        0x44 v_mfma_f32_32x32x2_f32 W16 [F32 F32 W16], 0x45 v_mfma_f32_16x16x4_f32 W4 [F32 F32 W4],
        0x48 v_mfma_f32_32x32x4_2b_f16 W32 [B64 B64 W32],
        0x49 v_mfma_f32_16x16x4_4b_f16 W16 [B64 B64 W16],
        0x4a v_mfma_f32_4x4x4_16b_f16 W4 [B64 B64 W4],
        0x4c v_mfma_f32_32x32x8_f16 W16 [B64 B64 W16],
        0x4d v_mfma_f32_16x16x16_f16 W4 [B64 B64 W4],
        0x50 v_mfma_i32_32x32x4_2b_i8 W32 [B32 B32 W32],
        0x51 v_mfma_i32_16x16x4_4b_i8 W16 [B32 B32 W16],
        0x52 v_mfma_i32_4x4x4_16b_i8 W4 [B32 B32 W4],
        0x56 v_mfma_i32_32x32x16_i8 W16 [B64 B64 W16], 0x57 v_mfma_i32_16x16x32_i8 W4 [B64 B64 W4],
        0x58 v_accvgpr_read_b32 B32 [Acc], 0x59 v_accvgpr_write_b32 Acc [B32],
        0x5d v_mfma_f32_32x32x4_2b_bf16 W32 [B64 B64 W32],
        0x5e v_mfma_f32_16x16x4_4b_bf16 W16 [B64 B64 W16],
        0x5f v_mfma_f32_4x4x4_16b_bf16 W4 [B64 B64 W4],
        0x60 v_mfma_f32_32x32x8_bf16 W16 [B64 B64 W16],
        0x61 v_mfma_f32_16x16x16_bf16 W4 [B64 B64 W4],
        0x62 v_smfmac_f32_16x16x32_f16 W4 [B64 W4 B32],
        0x64 v_smfmac_f32_32x32x16_f16 W16 [B64 W4 B32],
        0x66 v_smfmac_f32_16x16x32_bf16 W4 [B64 W4 B32],
        0x68 v_smfmac_f32_32x32x16_bf16 W16 [B64 W4 B32],
        0x6a v_smfmac_i32_16x16x64_i8 W4 [B64 W4 B32],
        0x6c v_smfmac_i32_32x32x32_i8 W16 [B64 W4 B32],
        0x6e v_mfma_f64_16x16x4_f64 W8 [F64 F64 W8],
        0x6f v_mfma_f64_4x4x4_4b_f64 F64 [F64 F64 F64],
        0x70 v_mfma_f32_16x16x32_bf8_bf8 W4 [B64 B64 W4],
        0x71 v_mfma_f32_16x16x32_bf8_fp8 W4 [B64 B64 W4],
        0x72 v_mfma_f32_16x16x32_fp8_bf8 W4 [B64 B64 W4],
        0x73 v_mfma_f32_16x16x32_fp8_fp8 W4 [B64 B64 W4],
        0x74 v_mfma_f32_32x32x16_bf8_bf8 W16 [B64 B64 W16],
        0x75 v_mfma_f32_32x32x16_bf8_fp8 W16 [B64 B64 W16],
        0x76 v_mfma_f32_32x32x16_fp8_bf8 W16 [B64 B64 W16],
        0x77 v_mfma_f32_32x32x16_fp8_fp8 W16 [B64 B64 W16],
        0x78 v_smfmac_f32_16x16x64_bf8_bf8 W4 [B64 W4 B32],
        0x79 v_smfmac_f32_16x16x64_bf8_fp8 W4 [B64 W4 B32],
        0x7a v_smfmac_f32_16x16x64_fp8_bf8 W4 [B64 W4 B32],
        0x7b v_smfmac_f32_16x16x64_fp8_fp8 W4 [B64 W4 B32],
        0x7c v_smfmac_f32_32x32x32_bf8_bf8 W16 [B64 W4 B32],
        0x7d v_smfmac_f32_32x32x32_bf8_fp8 W16 [B64 W4 B32],
        0x7e v_smfmac_f32_32x32x32_fp8_bf8 W16 [B64 W4 B32],
        0x7f v_smfmac_f32_32x32x32_fp8_fp8 W16 [B64 W4 B32],
    }
    ;
        s_pack_hl_b32_b16 s_add_f32 s_sub_f32 s_min_num_f32 s_max_num_f32 s_mul_f32 s_fmaak_f32
        s_fmamk_f32 s_fmac_f32 s_cvt_pk_rtz_f16_f32 s_add_f16 s_sub_f16 s_min_num_f16 s_max_num_f16
        s_mul_f16 s_fmac_f16 s_minimum_f32 s_maximum_f32 s_minimum_f16 s_maximum_f16 s_add_nc_u64
        s_sub_nc_u64 s_mul_u64 s_version s_and_saveexec_b32 s_or_saveexec_b32 s_xor_saveexec_b32
        s_nand_saveexec_b32 s_nor_saveexec_b32 s_xnor_saveexec_b32 s_andn1_saveexec_b32
        s_orn1_saveexec_b32 s_andn2_saveexec_b32 s_orn2_saveexec_b32 s_andn1_wrexec_b32
        s_andn2_wrexec_b32 s_movrelsd_2_b32 s_sendmsg_rtn_b32 s_sendmsg_rtn_b64 s_barrier_signal
        s_barrier_signal_isfirst s_get_barrier_state s_barrier_init s_barrier_join s_wakeup_barrier
        s_sleep_var s_ceil_f32 s_floor_f32 s_trunc_f32 s_rndne_f32 s_cvt_f32_i32 s_cvt_f32_u32
        s_cvt_i32_f32 s_cvt_u32_f32 s_cvt_f16_f32 s_cvt_f32_f16 s_cvt_hi_f32_f16 s_ceil_f16
        s_floor_f16 s_trunc_f16 s_rndne_f16 s_cmp_lt_f32 s_cmp_eq_f32 s_cmp_le_f32 s_cmp_gt_f32
        s_cmp_lg_f32 s_cmp_ge_f32 s_cmp_o_f32 s_cmp_u_f32 s_cmp_nge_f32 s_cmp_nlg_f32 s_cmp_ngt_f32
        s_cmp_nle_f32 s_cmp_neq_f32 s_cmp_nlt_f32 s_cmp_lt_f16 s_cmp_eq_f16 s_cmp_le_f16
        s_cmp_gt_f16 s_cmp_lg_f16 s_cmp_ge_f16 s_cmp_o_f16 s_cmp_u_f16 s_cmp_nge_f16 s_cmp_nlg_f16
        s_cmp_ngt_f16 s_cmp_nle_f16 s_cmp_neq_f16 s_cmp_nlt_f16 s_clause s_delay_alu s_wait_alu
        s_wait_idle s_wait_event s_round_mode s_denorm_mode s_singleuse_vdst s_barrier_wait
        s_barrier_leave s_code_end s_ttracedata_imm s_wait_loadcnt s_wait_storecnt s_wait_samplecnt
        s_wait_bvhcnt s_wait_expcnt s_wait_dscnt s_wait_kmcnt s_wait_loadcnt_dscnt
        s_wait_storecnt_dscnt s_load_b96 s_load_i8 s_load_u8 s_load_i16 s_load_u16 s_buffer_load_b96
        s_buffer_load_i8 s_buffer_load_u8 s_buffer_load_i16 s_buffer_load_u16 s_prefetch_inst
        s_prefetch_inst_pc_rel s_prefetch_data s_buffer_prefetch_data s_prefetch_data_pc_rel
        v_fmac_f16 v_fmamk_f16 v_fmaak_f16 v_pipeflush v_mov_b16 v_movreld_b32 v_movrels_b32
        v_movrelsd_b32 v_movrelsd_2_b32 v_swap_b16 v_permlane64_b32 v_swaprel_b32 v_not_b16
        v_cvt_i32_i16 v_cvt_u32_u16 v_fma_dx9_zero_f32 v_mullit_f32 v_minimum3_f32 v_maximum3_f32
        v_minimum3_f16 v_maximum3_f16 v_xor3_b32 v_permlane16_b32 v_permlanex16_b32 v_cndmask_b16
        v_maxmin_u32 v_minmax_u32 v_maxmin_i32 v_minmax_i32 v_dot2_f16_f16 v_dot2_bf16_bf16
        v_minmax_num_f32 v_maxmin_num_f32 v_minmax_num_f16 v_maxmin_num_f16 v_minimummaximum_f32
        v_maximumminimum_f32 v_minimummaximum_f16 v_maximumminimum_f16 v_s_exp_f32 v_s_exp_f16
        v_s_log_f32 v_s_log_f16 v_s_rcp_f32 v_s_rcp_f16 v_s_rsq_f32 v_s_rsq_f16 v_s_sqrt_f32
        v_s_sqrt_f16 v_cvt_pk_i16_f32 v_cvt_pk_u16_f32 v_permlane16_var_b32 v_permlanex16_var_b32
        v_minimum_f64 v_maximum_f64 v_and_b16 v_or_b16 v_xor_b16 v_minimum_f32 v_maximum_f32
        v_minimum_f16 v_maximum_f16 v_dot4_i32_iu8 v_dot8_i32_iu4 v_dot2_f32_bf16 v_pk_minimum_f16
        v_pk_maximum_f16 v_dot4_f32_fp8_bf8 v_dot4_f32_bf8_fp8 v_dot4_f32_fp8_fp8 v_dot4_f32_bf8_bf8
        v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 v_wmma_f16_16x16x16_f16
        v_wmma_bf16_16x16x16_bf16 v_wmma_i32_16x16x16_iu8 v_wmma_i32_16x16x16_iu4
        v_wmma_f32_16x16x16_fp8_fp8 v_wmma_f32_16x16x16_fp8_bf8 v_wmma_f32_16x16x16_bf8_fp8
        v_wmma_f32_16x16x16_bf8_bf8 v_wmma_i32_16x16x32_iu4 v_swmmac_f32_16x16x32_f16
        v_swmmac_f32_16x16x32_bf16 v_swmmac_f16_16x16x32_f16 v_swmmac_bf16_16x16x32_bf16
        v_swmmac_i32_16x16x32_iu8 v_swmmac_i32_16x16x32_iu4 v_swmmac_i32_16x16x64_iu4
        v_swmmac_f32_16x16x32_fp8_fp8 v_swmmac_f32_16x16x32_fp8_bf8 v_swmmac_f32_16x16x32_bf8_fp8
        v_swmmac_f32_16x16x32_bf8_bf8
}
