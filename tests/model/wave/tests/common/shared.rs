// SPDX-License-Identifier: GPL-2.0 OR MIT

//! gfx942 cases that also apply to gfx1201, and their spelling there.

/// Substrings of instructions that gfx1201 lacks or executes differently.
const NOT_THERE: &[&str] = &[
    // Encodings and registers.
    "sdwa",
    "accvgpr",
    "mfma",
    "wave_",
    "row_bcast",
    "row_newbcast",
    "bound_ctrl",
    "flat_scratch",
    "xnack",
    "hwreg",
    "gpr_idx",
    // Memory instructions have their own tests.
    "ds_",
    "global_",
    "flat_",
    "scratch_",
    "buffer_",
    "s_load",
    "s_store",
    "s_atomic",
    "s_dcache",
    "s_mem",
    "s_waitcnt",
    "s_barrier",
    // Instructions.
    "s_cmpk_",
    "s_ff0_",
    "s_memtime",
    "s_set_gpr",
    "s_cbranch_cdbg",
    "s_trap",
    "s_sethalt",
    "s_getreg",
    "s_sendmsg",
    "v_mac_",
    "v_mad_f16",
    "legacy_f16",
    "mad_legacy",
    "fma_legacy",
    "v_lshl_add_u64",
    "v_mov_b64",
    "v_fmac_f64",
    "v_pk_add_f32",
    "v_pk_mul_f32",
    "v_pk_fma_f32",
    "v_pk_mov_b32",
    "v_dot2c",
    "v_dot4c",
    "v_dot8c",
    "v_dot4_i32_i8",
    "v_dot8_i32_i4",
    "v_dot2_i32_i16",
    "v_dot2_u32_u16",
    "v_exp_legacy",
    "v_log_legacy",
    "v_cvt_pkaccum",
    "v_screen",
    // EXEC only, without another destination; no always and never.
    "v_cmpx_",
    "v_cmp_f_",
    "v_cmp_t_",
    "v_cmp_tru_",
    "src_execz",
    "src_vccz",
    "v_subrev_u16",
    // A signalling NaN does not take precedence.
    "v_min_f",
    "v_max_f32 v10",
    "v_max_f16",
    "v_max_f64",
    "v_min3_f",
    "v_max3_f",
    "v_med3_f",
    // Different formats of the same name.
    "fp8",
    "bf8",
];

/// gfx1201 mnemonics for which LLVM does not accept the older spelling.
const NAMES: &[(&str, &str)] = &[
    ("v_add_u32", "v_add_nc_u32"),
    ("v_sub_u32", "v_sub_nc_u32"),
    ("v_subrev_u32", "v_subrev_nc_u32"),
    ("v_add_i32", "v_add_nc_i32"),
    ("v_sub_i32", "v_sub_nc_i32"),
    ("v_add_u16", "v_add_nc_u16"),
    ("v_sub_u16", "v_sub_nc_u16"),
    ("v_add_i16", "v_add_nc_i16"),
    ("v_sub_i16", "v_sub_nc_i16"),
    ("v_addc_co_u32", "v_add_co_ci_u32"),
    ("v_subb_co_u32", "v_sub_co_ci_u32"),
    ("v_subbrev_co_u32", "v_subrev_co_ci_u32"),
    ("v_mul_legacy_f32", "v_mul_dx9_zero_f32"),
    ("v_ffbh_u32", "v_clz_i32_u32"),
    ("v_ffbh_i32", "v_cls_i32"),
    ("v_ffbl_b32", "v_ctz_i32_b32"),
    ("v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"),
    ("v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"),
    ("s_andn2_b", "s_and_not1_b"),
    ("s_orn2_b", "s_or_not1_b"),
    ("s_flbit_i32_b32", "s_clz_i32_u32"),
    ("s_flbit_i32_b64", "s_clz_i32_u64"),
    ("s_flbit_i32_i64", "s_cls_i32_i64"),
    ("s_flbit_i32 ", "s_cls_i32 "),
    ("s_ff1_i32_b", "s_ctz_i32_b"),
    ("s_andn2_saveexec", "s_and_not1_saveexec"),
    ("s_orn2_saveexec", "s_or_not1_saveexec"),
    ("s_andn1_saveexec", "s_and_not0_saveexec"),
    ("s_orn1_saveexec", "s_or_not0_saveexec"),
    ("s_andn1_wrexec", "s_and_not0_wrexec"),
    ("s_andn2_wrexec", "s_and_not1_wrexec"),
];

/// Returns whether the case applies to gfx1201.
pub fn has(asm: &str) -> bool {
    !NOT_THERE.iter().any(|part| asm.contains(part))
}

/// Returns the case in gfx1201 spelling.
pub fn translate(asm: &str) -> String {
    NAMES
        .iter()
        .fold(asm.to_owned(), |text, (from, to)| text.replace(from, to))
}
