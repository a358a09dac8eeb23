// SPDX-License-Identifier: GPL-2.0

// The first of two trap handlers of gfx942. Waves come here, privileged, from an s_trap, an
// exception or a debugger. It makes what the second one, the runtime's, expects, and goes there:
//
//	ttmp[0:1]	as they came: program counter [47:0], trap id [55:48], host trap [56]
//	ttmp12		STATUS, which this code changes
//	ttmp13		replay state of IB_STS in [31:26], debugger in [23]; the rest as it came
//	ttmp[14:15]	address of the second handler's memory
//
// ttmp4 to ttmp11 have what the dispatcher put there. The memory of this handler (SQ_SHADER_TMA)
// has the address of the second handler at 0, that of its memory at 8, and at 16 whether a debugger
// is there. Without a second handler a trap does nothing, and an exception halts the wave.
//
// Waves are not saved here. tests/model/wave/tests/trap.rs compares trap.rs with this file.

	s_getreg_b32	ttmp12, hwreg(HW_REG_STATUS)
	// Neither the elevated priority of a handler nor the note of a memory error come back.
	s_andn2_b32	ttmp12, ttmp12, 0x20006

	// The replay state counts scalar loads from here on: keep what the program had.
	s_getreg_b32	ttmp2, hwreg(HW_REG_IB_STS, 15, 6)
	s_lshl_b32	ttmp2, ttmp2, 26
	s_and_b32	ttmp13, ttmp13, 0x037fffff
	s_or_b32	ttmp13, ttmp13, ttmp2
	s_setreg_imm32_b32 hwreg(HW_REG_IB_STS, 15, 6), 0

	// A trap, an exception that is always one (memory violation, illegal instruction, what a
	// debugger asks for), or one that MODE enables; else the wave goes on.
	s_and_b32	ttmp2, ttmp1, 0x1ff0000
	s_cbranch_scc1	second
	s_getreg_b32	ttmp2, hwreg(HW_REG_TRAPSTS)
	s_getreg_b32	ttmp3, hwreg(HW_REG_MODE, 12, 9)
	s_or_b32	ttmp3, ttmp3, 0x3c00900
	s_and_b32	ttmp2, ttmp2, ttmp3
	s_cbranch_scc0	back

second:
	// SQ_SHADER_TMA_LO and HI, which the assembler has no names for.
	s_getreg_b32	ttmp14, hwreg(18)
	s_getreg_b32	ttmp15, hwreg(19)
	s_lshl_b64	ttmp[14:15], ttmp[14:15], 8
	s_load_dword	ttmp2, ttmp[14:15], 0x10 glc
	s_waitcnt	lgkmcnt(0)
	s_lshl_b32	ttmp2, ttmp2, 23
	s_or_b32	ttmp13, ttmp13, ttmp2
	s_load_dwordx2	ttmp[2:3], ttmp[14:15], 0x0 glc
	s_waitcnt	lgkmcnt(0)
	s_load_dwordx2	ttmp[14:15], ttmp[14:15], 0x8 glc
	s_waitcnt	lgkmcnt(0)
	s_cmp_eq_u64	ttmp[2:3], 0
	s_cbranch_scc1	nobody
	s_setpc_b64	ttmp[2:3]

nobody:
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

back:
	s_and_b32	ttmp1, ttmp1, 0xffff
	s_lshr_b32	ttmp2, ttmp13, 26
	s_setreg_b32	hwreg(HW_REG_IB_STS, 15, 6), ttmp2
	// EXECZ and VCCZ follow from writes only; the elevated priority ends with the handler.
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_lshr_b32	ttmp2, ttmp12, 3
	s_setreg_b32	hwreg(HW_REG_STATUS, 3, 29), ttmp2
	s_setreg_b32	hwreg(HW_REG_STATUS, 0, 1), ttmp12
	s_rfe_b64	ttmp[0:1]
