// SPDX-License-Identifier: GPL-2.0

// First-level trap handler of gfx942.
//
// A wave enters it, privileged, at its first instruction: for s_trap, an exception, a debugger, or
// to save its context (TRAPSTS.SAVECTX). A wave that is restored starts at the second instruction.
//
// Traps and exceptions go to the second-level handler, the runtime's, which expects
//
//	ttmp[0:1]	as on entry: program counter [47:0], trap id [55:48], host trap [56]
//	ttmp12		STATUS, which this code changes
//	ttmp13		replay state of IB_STS in [31:26], debugger in [23]; the rest as on entry
//	ttmp[14:15]	address of the second-level handler's memory
//
// and ttmp4 to ttmp11 as initialised by SPI. The memory of this handler (SQ_SHADER_TMA) has the
// address of the second-level handler at 0, that of its memory at 8, and at 16 whether a debugger
// is attached. Without a second level a trap has no effect, and any other cause halts the wave.
//
// To save a wave, hardware replies to MSG_SAVEWAVE with EXEC: the address of the wave's record, and
// bit 58 in one wave of each workgroup, whose record has the LDS. AMD's debugger library reads the
// record: VGPRs, accumulation VGPRs, SGPRs, 16 hardware registers (M0, PC, EXEC, STATUS, TRAPSTS,
// XNACK_MASK, MODE), 16 trap temporaries (4 to 11 and 13), LDS.
//
// tests/handler compares trap.rs with this file, and runs it.

	s_branch	entry
	s_branch	restore

entry:
	s_getreg_b32	ttmp12, hwreg(HW_REG_STATUS)
	// Not restored: SPI_PRIO, the priority of a handler, and ECC_ERR.
	s_andn2_b32	ttmp12, ttmp12, 0x20006

	// The replay state counts scalar loads from here on: keep that of the program.
	s_getreg_b32	ttmp2, hwreg(HW_REG_IB_STS, 15, 6)
	s_lshl_b32	ttmp2, ttmp2, 26
	s_and_b32	ttmp13, ttmp13, 0x037fffff
	s_or_b32	ttmp13, ttmp13, ttmp2
	s_setreg_imm32_b32 hwreg(HW_REG_IB_STS, 15, 6), 0

	s_getreg_b32	ttmp2, hwreg(HW_REG_TRAPSTS)
	s_and_b32	ttmp3, ttmp1, 0x1ff0000
	s_cbranch_scc1	second
	s_bitcmp1_b32	ttmp12, 13
	s_cbranch_scc0	running

	// Halted: saved, or a memory violation of the instruction fetch, which would trap again.
halted:
	s_bitcmp1_b32	ttmp2, 10
	s_cbranch_scc1	save
	s_sleep		16
	s_getreg_b32	ttmp2, hwreg(HW_REG_TRAPSTS)
	s_branch	halted

	// Exceptions come before SAVECTX, which is still set when the second level returns: those
	// that cannot be masked (memory violation, illegal instruction, of a debugger), and those
	// that MODE enables, with one bit for all address watches.
running:
	s_getreg_b32	ttmp3, hwreg(HW_REG_MODE, 12, 9)
	s_bitcmp1_b32	ttmp3, 7
	s_cselect_b32	ttmp14, 0x7000, 0
	s_or_b32	ttmp3, ttmp3, ttmp14
	s_or_b32	ttmp3, ttmp3, 0x3c00900
	s_and_b32	ttmp3, ttmp3, ttmp2
	s_cbranch_scc1	second
	s_bitcmp1_b32	ttmp2, 10
	s_cbranch_scc1	save

	// Also for a cause that this code does not know: a return would enter it again.
second:
	// SQ_SHADER_TMA_LO and HI, which the assembler has no names for.
	s_getreg_b32	ttmp14, hwreg(18)
	s_getreg_b32	ttmp15, hwreg(19)
	s_lshl_b64	ttmp[14:15], ttmp[14:15], 8
	// Addresses have 48 bits.
	s_sext_i32_i16	ttmp15, ttmp15
	s_load_dword	ttmp2, ttmp[14:15], 0x10 glc
	s_waitcnt	lgkmcnt(0)
	s_lshl_b32	ttmp2, ttmp2, 23
	s_or_b32	ttmp13, ttmp13, ttmp2
	s_load_dwordx2	ttmp[2:3], ttmp[14:15], 0x0 glc
	s_waitcnt	lgkmcnt(0)
	s_load_dwordx2	ttmp[14:15], ttmp[14:15], 0x8 glc
	s_waitcnt	lgkmcnt(0)
	s_cmp_eq_u64	ttmp[2:3], 0
	s_cbranch_scc1	no_second
	s_setpc_b64	ttmp[2:3]

no_second:
	s_and_b32	ttmp2, ttmp1, 0x1ff0000
	s_cbranch_scc0	halt
	s_bitcmp1_b32	ttmp1, 24
	s_cbranch_scc1	back
	// Behind the s_trap.
	s_add_u32	ttmp0, ttmp0, 4
	s_addc_u32	ttmp1, ttmp1, 0
	s_branch	back
halt:
	s_bitset1_b32	ttmp12, 13
	// A wave that is halted at s_endpgm cannot be saved.
	s_sub_u32	ttmp0, ttmp0, 8
	s_subb_u32	ttmp1, ttmp1, 0

back:
	s_and_b32	ttmp1, ttmp1, 0xffff
	s_mov_b32	ttmp2, ttmp12
	s_lshr_b32	ttmp3, ttmp13, 26
	s_setreg_b32	hwreg(HW_REG_IB_STS, 15, 6), ttmp3
	// EXECZ and VCCZ follow from writes only. SPI_PRIO stays as the scheduler set it.
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_lshr_b32	ttmp3, ttmp2, 3
	s_setreg_b32	hwreg(HW_REG_STATUS, 3, 29), ttmp3
	s_nop		1
	s_setreg_b32	hwreg(HW_REG_STATUS, 0, 1), ttmp2
	s_rfe_b64	ttmp[0:1]

// Sets ttmp[14:15] to the address of the hardware registers in the record at EXEC.
.macro find_registers
	s_getreg_b32	ttmp14, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32	ttmp14, ttmp14, 1
	s_lshl_b32	ttmp14, ttmp14, 11
	s_getreg_b32	ttmp15, hwreg(HW_REG_GPR_ALLOC, 24, 3)
	s_add_u32	ttmp15, ttmp15, 1
	s_lshl_b32	ttmp15, ttmp15, 6
	s_add_u32	ttmp14, ttmp14, ttmp15
	s_add_u32	ttmp14, ttmp14, exec_lo
	s_addc_u32	ttmp15, exec_hi, 0
	s_and_b32	ttmp15, ttmp15, 0xffff
.endm

// Sets ttmp[8:11] to a buffer of dwords by lane at ttmp[2:3], ttmp5 to the number of VGPRs, and
// ttmp6 to that with accumulation VGPRs. Enables all lanes.
.macro find_vgprs
	s_mov_b64	exec, -1
	s_mov_b32	ttmp8, ttmp2
	s_and_b32	ttmp9, ttmp3, 0xffff
	s_or_b32	ttmp9, ttmp9, 0x40000
	s_mov_b32	ttmp10, 0x1000000
	s_mov_b32	ttmp11, 0x804fac
	s_getreg_b32	ttmp5, hwreg(HW_REG_GPR_ALLOC, 12, 6)
	s_add_u32	ttmp5, ttmp5, 1
	s_lshl_b32	ttmp5, ttmp5, 2
	s_getreg_b32	ttmp6, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32	ttmp6, ttmp6, 1
	s_lshl_b32	ttmp6, ttmp6, 3
	// The kernel descriptor can set an ACCUM_OFFSET beyond the allocation.
	s_min_u32	ttmp5, ttmp5, ttmp6
.endm

save:
	s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 10, 1), 0
	s_mov_b64	ttmp[2:3], exec
	s_mov_b64	exec, 0
	s_sendmsg	sendmsg(MSG_SAVEWAVE)
	// The waves that are waited for need instructions: SPI_PRIO 2.
	s_setreg_imm32_b32 hwreg(HW_REG_STATUS, 1, 2), 2
	// ECC_ERR keeps scalar stores from being executed.
	s_nop		1
	s_setreg_imm32_b32 hwreg(HW_REG_STATUS, 17, 1), 0
wait:
	s_sleep		2
	s_cbranch_execz	wait

	// Scalar stores are not issued while another is in flight: concurrent ones fail.
	find_registers
	s_store_dwordx4	ttmp[4:7], ttmp[14:15], 0x50 glc
	s_waitcnt	lgkmcnt(0)
	s_store_dwordx4	ttmp[8:11], ttmp[14:15], 0x60 glc
	s_waitcnt	lgkmcnt(0)
	s_store_dword	ttmp13, ttmp[14:15], 0x74 glc
	s_waitcnt	lgkmcnt(0)

	s_mov_b32	ttmp4, m0
	s_mov_b32	ttmp5, ttmp0
	s_and_b32	ttmp6, ttmp1, 0xffff
	s_mov_b32	ttmp7, ttmp2
	s_store_dwordx4	ttmp[4:7], ttmp[14:15], 0x0 glc
	s_mov_b32	ttmp8, ttmp3
	s_mov_b32	ttmp9, ttmp12
	s_getreg_b32	ttmp10, hwreg(HW_REG_TRAPSTS)
	s_mov_b32	ttmp11, xnack_mask_lo
	s_waitcnt	lgkmcnt(0)
	s_store_dwordx4	ttmp[8:11], ttmp[14:15], 0x10 glc
	s_mov_b32	ttmp0, xnack_mask_hi
	s_getreg_b32	ttmp1, hwreg(HW_REG_MODE)
	s_waitcnt	lgkmcnt(0)
	s_store_dwordx2	ttmp[0:1], ttmp[14:15], 0x20 glc
	s_waitcnt	lgkmcnt(0)
	s_setvskip	0, 0
	s_mov_b64	ttmp[2:3], exec

	// SGPRs, of which VCC, XNACK_MASK and FLAT_SCRATCH are the last.
	s_getreg_b32	ttmp4, hwreg(HW_REG_GPR_ALLOC, 24, 3)
	s_add_u32	ttmp4, ttmp4, 1
	s_lshl_b32	ttmp4, ttmp4, 4
	s_lshl_b32	ttmp5, ttmp4, 2
	s_sub_u32	ttmp14, ttmp14, ttmp5
	s_subb_u32	ttmp15, ttmp15, 0
	s_mov_b32	m0, 0
save_sgprs:
	s_nop		0
	s_movrels_b64	s[0:1], s[0:1]
	s_movrels_b64	s[2:3], s[2:3]
	s_store_dwordx4	s[0:3], ttmp[14:15], 0x0 glc
	s_waitcnt	lgkmcnt(0)
	s_add_u32	ttmp14, ttmp14, 16
	s_addc_u32	ttmp15, ttmp15, 0
	s_add_u32	m0, m0, 4
	s_cmp_lt_u32	m0, ttmp4
	s_cbranch_scc1	save_sgprs

	s_mov_b32	xnack_mask_lo, 0
	s_mov_b32	xnack_mask_hi, 0
	find_vgprs
	// s5: vector stores fail, after an XNACK error of a wave that is not replayed.
	s_mov_b32	s5, 0
	s_bitcmp1_b32	ttmp12, 22
	s_cbranch_scc1	stores_work
	s_getreg_b32	s5, hwreg(HW_REG_TRAPSTS, 28, 1)
stores_work:
	s_mov_b32	ttmp7, 0

	s_mov_b32	ttmp4, 0
save_vgprs:
	s_set_gpr_idx_on ttmp4, 1
	v_mov_b32	v0, v0
	v_mov_b32	v1, v1
	v_mov_b32	v2, v2
	v_mov_b32	v3, v3
	s_set_gpr_idx_off
	s_call_b64	s[6:7], put
	s_call_b64	s[6:7], put_next
	s_add_u32	ttmp4, ttmp4, 4
	s_cmp_lt_u32	ttmp4, ttmp5
	s_cbranch_scc1	save_vgprs

	s_sub_u32	ttmp6, ttmp6, ttmp5
	s_cmp_eq_u32	ttmp6, 0
	s_cbranch_scc1	save_lds
	s_mov_b32	ttmp4, 0
save_accumulators:
	s_set_gpr_idx_on ttmp4, 1
	v_accvgpr_read_b32 v0, a0
	v_accvgpr_read_b32 v1, a1
	v_accvgpr_read_b32 v2, a2
	v_accvgpr_read_b32 v3, a3
	s_set_gpr_idx_off
	s_call_b64	s[6:7], put
	s_call_b64	s[6:7], put_next
	s_add_u32	ttmp4, ttmp4, 4
	s_cmp_lt_u32	ttmp4, ttmp6
	s_cbranch_scc1	save_accumulators

save_lds:
	s_getreg_b32	ttmp4, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32	ttmp4, ttmp4, 8
	s_cmp_eq_u32	ttmp4, 0
	s_cbranch_scc1	saved
	// No wave of the workgroup changes LDS any more.
	s_barrier
	s_bitcmp1_b32	ttmp3, 26
	s_cbranch_scc0	saved
	// Behind SGPRs, hardware registers and trap temporaries.
	s_getreg_b32	ttmp5, hwreg(HW_REG_GPR_ALLOC, 24, 3)
	s_lshl_b32	ttmp5, ttmp5, 6
	s_add_u32	ttmp7, ttmp7, ttmp5
	s_add_u32	ttmp7, ttmp7, 192
	s_mov_b32	ttmp5, 0
	v_mbcnt_lo_u32_b32 v2, -1, 0
	v_mbcnt_hi_u32_b32 v2, -1, v2
	v_lshlrev_b32	v2, 2, v2
save_lds_part:
	ds_read2st64_b32 v[0:1], v2 offset1:1
	s_waitcnt	lgkmcnt(0)
	s_call_b64	s[6:7], put
	v_add_u32	v2, 0x200, v2
	s_add_u32	ttmp5, ttmp5, 0x200
	s_cmp_lt_u32	ttmp5, ttmp4
	s_cbranch_scc1	save_lds_part

saved:
	s_waitcnt	vmcnt(0) & lgkmcnt(0)
	s_dcache_wb
	s_waitcnt	lgkmcnt(0)
	s_endpgm_saved

// Stores two registers at ttmp7 in the record, and advances it. Returns to s[6:7].
.macro put_two low, high
	s_cmp_eq_u32	s5, 0
	s_cbranch_scc0	put_lanes_\low
	buffer_store_dword \low, off, ttmp[8:11], ttmp7 sc0 nt
	buffer_store_dword \high, off, ttmp[8:11], ttmp7 offset:256 sc0 nt
	s_add_u32	ttmp7, ttmp7, 512
	s_setpc_b64	s[6:7]
put_lanes_\low:
	s_add_u32	ttmp14, ttmp2, ttmp7
	s_addc_u32	ttmp15, ttmp3, 0
	s_and_b32	ttmp15, ttmp15, 0xffff
	s_mov_b32	s4, 0
put_lane_\low:
	v_readlane_b32	s0, \low, s4
	v_readlane_b32	s1, \high, s4
	s_add_u32	s4, s4, 1
	s_store_dword	s0, ttmp[14:15], 0x0 glc
	s_waitcnt	lgkmcnt(0)
	s_store_dword	s1, ttmp[14:15], 0x100 glc
	s_waitcnt	lgkmcnt(0)
	s_add_u32	ttmp14, ttmp14, 4
	s_addc_u32	ttmp15, ttmp15, 0
	s_cmp_lt_u32	s4, 64
	s_cbranch_scc1	put_lane_\low
	s_add_u32	ttmp7, ttmp7, 512
	s_setpc_b64	s[6:7]
.endm

put:
	put_two		v0, v1
put_next:
	put_two		v2, v3

// Loads v0 to v3 from ttmp7 in the record.
.macro get_four
	buffer_load_dword v0, off, ttmp[8:11], ttmp7 sc0 nt
	buffer_load_dword v1, off, ttmp[8:11], ttmp7 offset:256 sc0 nt
	buffer_load_dword v2, off, ttmp[8:11], ttmp7 offset:512 sc0 nt
	buffer_load_dword v3, off, ttmp[8:11], ttmp7 offset:768 sc0 nt
	s_waitcnt	vmcnt(0)
.endm

restore:
	find_registers
	s_mov_b64	ttmp[2:3], exec
	find_vgprs

	s_bitcmp1_b32	ttmp3, 26
	s_cbranch_scc0	restore_accumulators
	s_getreg_b32	ttmp4, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32	ttmp4, ttmp4, 8
	s_sub_u32	ttmp7, ttmp14, ttmp2
	s_add_u32	ttmp7, ttmp7, 128
	s_mov_b32	m0, 0
	s_branch	restore_lds_end
restore_lds:
	buffer_load_dword off, ttmp[8:11], ttmp7 lds
	s_add_u32	ttmp7, ttmp7, 256
	s_add_u32	m0, m0, 256
restore_lds_end:
	s_cmp_lt_u32	m0, ttmp4
	s_cbranch_scc1	restore_lds

restore_accumulators:
	s_lshl_b32	ttmp7, ttmp5, 8
	s_sub_u32	ttmp6, ttmp6, ttmp5
	s_mov_b32	ttmp4, 0
	s_branch	restore_accumulators_end
restore_accumulator:
	get_four
	s_set_gpr_idx_on ttmp4, 8
	v_accvgpr_write_b32 a0, v0
	v_accvgpr_write_b32 a1, v1
	v_accvgpr_write_b32 a2, v2
	v_accvgpr_write_b32 a3, v3
	s_set_gpr_idx_off
	s_add_u32	ttmp7, ttmp7, 1024
	s_add_u32	ttmp4, ttmp4, 4
restore_accumulators_end:
	s_cmp_lt_u32	ttmp4, ttmp6
	s_cbranch_scc1	restore_accumulator

	// v0 to v3 last: they have the others on the way.
	s_mov_b32	ttmp7, 1024
	s_mov_b32	ttmp4, 4
	s_branch	restore_vgprs_end
restore_vgprs:
	get_four
	s_set_gpr_idx_on ttmp4, 8
	v_mov_b32	v0, v0
	v_mov_b32	v1, v1
	v_mov_b32	v2, v2
	v_mov_b32	v3, v3
	s_set_gpr_idx_off
	s_add_u32	ttmp7, ttmp7, 1024
	s_add_u32	ttmp4, ttmp4, 4
restore_vgprs_end:
	s_cmp_lt_u32	ttmp4, ttmp5
	s_cbranch_scc1	restore_vgprs
	s_mov_b32	ttmp7, 0
	get_four

	// SGPRs from the last on.
	s_getreg_b32	ttmp4, hwreg(HW_REG_GPR_ALLOC, 24, 3)
	s_add_u32	ttmp4, ttmp4, 1
	s_lshl_b32	m0, ttmp4, 4
	s_mov_b64	ttmp[8:9], ttmp[14:15]
restore_sgprs:
	s_sub_u32	ttmp8, ttmp8, 16
	s_subb_u32	ttmp9, ttmp9, 0
	s_load_dwordx4	s[0:3], ttmp[8:9], 0x0 glc
	s_sub_u32	m0, m0, 4
	s_waitcnt	lgkmcnt(0)
	s_movreld_b64	s[0:1], s[0:1]
	s_movreld_b64	s[2:3], s[2:3]
	s_cmp_eq_u32	m0, 0
	s_cbranch_scc0	restore_sgprs

	s_load_dwordx4	ttmp[4:7], ttmp[14:15], 0x0 glc
	s_load_dwordx4	ttmp[8:11], ttmp[14:15], 0x10 glc
	s_load_dwordx2	ttmp[12:13], ttmp[14:15], 0x20 glc
	s_waitcnt	lgkmcnt(0)
	s_mov_b32	m0, ttmp4
	s_mov_b32	ttmp0, ttmp5
	s_and_b32	ttmp1, ttmp6, 0xffff
	s_mov_b32	exec_lo, ttmp7
	s_mov_b32	exec_hi, ttmp8
	s_mov_b32	ttmp2, ttmp9
	// Not SAVECTX, which may be set again.
	s_setreg_b32	hwreg(HW_REG_TRAPSTS, 0, 10), ttmp10
	s_lshr_b32	ttmp10, ttmp10, 11
	s_nop		0
	s_setreg_b32	hwreg(HW_REG_TRAPSTS, 11, 21), ttmp10
	s_mov_b32	xnack_mask_lo, ttmp11
	s_mov_b32	xnack_mask_hi, ttmp12
	s_setreg_b32	hwreg(HW_REG_MODE), ttmp13
	s_load_dwordx4	ttmp[4:7], ttmp[14:15], 0x50 glc
	s_load_dwordx4	ttmp[8:11], ttmp[14:15], 0x60 glc
	s_load_dword	ttmp13, ttmp[14:15], 0x74 glc
	s_waitcnt	lgkmcnt(0)
	s_lshr_b32	ttmp3, ttmp13, 26
	s_setreg_b32	hwreg(HW_REG_IB_STS, 15, 6), ttmp3
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_lshr_b32	ttmp3, ttmp2, 3
	s_setreg_b32	hwreg(HW_REG_STATUS, 3, 29), ttmp3
	s_nop		1
	s_setreg_b32	hwreg(HW_REG_STATUS, 0, 1), ttmp2
	// LDS is complete.
	s_barrier
	s_rfe_b64	ttmp[0:1]
