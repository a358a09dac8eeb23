// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests several processes: four working at once, memory and events shared between two, and a memory
 * fault, which ends the faulting process only.
 */
#include "hiptest.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 256u
#define SHARED_WORDS 100000u

static __global__ void multiply_add(uint32_t *words, uint32_t count, uint32_t factor, uint32_t more)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		words[i] = words[i] * factor + more;
}

static __global__ void store(uint32_t *base, int64_t index)
{
	base[index] = 1;
}

static __global__ void load(uint32_t *base, int64_t index)
{
	base[0] = base[index];
}

/* Allocates, copies, computes and frees, repeatedly. */
static void work(uint32_t rounds, uint32_t seed)
{
	const uint32_t count = 50000;
	std::vector<uint32_t> in(count);

	for (uint32_t i = 0; i < count; i++)
		in[i] = mix(i + seed);
	for (uint32_t round = 0; round < rounds; round++) {
		Device<uint32_t> words(in);
		Stream stream;

		multiply_add<<<8, THREADS, 0, stream.at>>>(words.at, count, 5, seed);
		multiply_add<<<8, THREADS, 0, stream.at>>>(words.at, count, 3, round);
		HIP(hipGetLastError());
		stream.wait();
		expect_all("a process's own work", words.get(),
			   [&](size_t i) { return (in[i] * 5 + seed) * 3 + round; });
	}
}

Helper::Helper()
{
	int ends[2], output[2];
	char number[16];

	ASSERT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	ASSERT(!pipe2(output, O_CLOEXEC));
	snprintf(number, sizeof(number), "%d", ends[1]);
	pid = fork();
	ASSERT(pid >= 0);
	if (!pid) {
		fcntl(ends[1], F_SETFD, 0);
		dup2(output[1], 2);
		dup2(output[1], 1);
		execl("/proc/self/exe", "hiptest", "--helper", number, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	close(output[1]);
	orders = ends[0];
	errors = output[0];
}

Helper::~Helper()
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(orders);
	close(errors);
}

void Helper::order(const Order &order)
{
	ASSERT(send(orders, &order, sizeof(order), MSG_NOSIGNAL) == sizeof(order), "%s",
	       strerror(errno));
}

void Helper::answer()
{
	Answer answer;
	std::string output;

	if (recv(orders, &answer, sizeof(answer), 0) == sizeof(answer)) {
		EXPECT(!answer.failures, "%u in process %d: %s", answer.failures, pid, answer.text);
		return;
	}
	int status = end(&output);
	ASSERT(false, "the other process exited (%#x): %s", status, output.c_str());
}

int Helper::end(std::string *output)
{
	char text[512];
	ssize_t n;
	int status = -1;

	while ((n = read(errors, text, sizeof(text))) > 0)
		output->append(text, (size_t)n);
	waitpid(pid, &status, 0);
	pid = -1;
	return status;
}

static void open_memory(const Order &order)
{
	uint32_t *words;

	HIP(hipIpcOpenMemHandle((void **)&words, order.memory, hipIpcMemLazyEnablePeerAccess));
	std::vector<uint32_t> got(SHARED_WORDS);
	HIP(hipMemcpy(got.data(), words, SHARED_WORDS * 4, hipMemcpyDeviceToHost));
	expect_all("memory of another process", got, [](size_t i) { return mix((uint32_t)i); });
	multiply_add<<<8, THREADS>>>(words, SHARED_WORDS, 3, 1);
	launched();
	HIP(hipIpcCloseMemHandle(words));
}

static void open_event(const Order &order)
{
	hipEvent_t event;

	HIP(hipIpcOpenEventHandle(&event, order.event));
	HIP(hipEventSynchronize(event));
	Stream stream;
	HIP(hipStreamWaitEvent(stream.at, event, 0));
	stream.wait();
	HIP(hipEventDestroy(event));
}

/* Whether a fault is an error of the next call; before HIP 7 it aborts the process. */
#define FAULTS_ARE_ERRORS (HIP_VERSION_MAJOR >= 7)
/* Exit status of a process that gets this error. */
#define FAULTED 33

/* Accesses an unmapped address relative to a valid buffer. */
static void reach(const Order &order)
{
	Device<uint32_t> words(1024);
	int64_t index = ((int64_t)order.address - (int64_t)(uintptr_t)words.at) / 4;

	if (order.job == Job::Store)
		store<<<1, 1>>>(words.at, index);
	else
		load<<<1, 1>>>(words.at, index);
	hipError_t error = hipDeviceSynchronize();
	if (FAULTS_ARE_ERRORS) {
		fprintf(stderr, "%s\n", hipGetErrorName(error));
		_exit(FAULTED);
	}
	/* The runtime aborts the process from another thread. */
	sleep(60);
}

int helper_main(int fd)
{
	Order order;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Completes the startup of HIP before the first command. */
	(void)hipFree(NULL);
	while (recv(fd, &order, sizeof(order), 0) == sizeof(order) && order.job != Job::Leave) {
		uint32_t before = failures();
		Answer answer = {};

		try {
			if (order.job == Job::Work)
				work(order.rounds, (uint32_t)getpid());
			else if (order.job == Job::OpenMemory)
				open_memory(order);
			else if (order.job == Job::OpenEvent)
				open_event(order);
			else
				reach(order);
		} catch (const Ended &) {
		}
		answer.failures = failures() - before;
		if (answer.failures)
			snprintf(answer.text, sizeof(answer.text), "%s", first_failure());
		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			return 1;
	}
	return 0;
}

/*
 * Helper processes: started together once and shared by all cases here, until a case makes one
 * crash.
 */
static std::vector<std::unique_ptr<Helper>> others(3);

static Helper &other(size_t which)
{
	for (std::unique_ptr<Helper> &one : others)
		if (!one || one->pid < 0)
			one.reset(new Helper);
	return *others[which];
}

void processes()
{
	Order order = {};
	double start = seconds_now();

	order.job = Job::Work;
	order.rounds = 1;
	for (size_t i = 0; i < others.size(); i++)
		other(i).order(order);
	for (size_t i = 0; i < others.size(); i++)
		other(i).answer();
	note("three more processes started in %.1f s", seconds_now() - start);
	order.rounds = 20;
	for (size_t i = 0; i < others.size(); i++)
		other(i).order(order);
	work(20, 1);
	for (size_t i = 0; i < others.size(); i++)
		other(i).answer();
}

/* The other process reads and changes the memory; the change is visible here. */
static void share(uint32_t *words)
{
	std::vector<uint32_t> in(SHARED_WORDS);
	Order order = {};

	for (uint32_t i = 0; i < SHARED_WORDS; i++)
		in[i] = mix(i);
	HIP(hipMemcpy(words, in.data(), SHARED_WORDS * 4, hipMemcpyHostToDevice));
	order.job = Job::OpenMemory;
	HIP(hipIpcGetMemHandle(&order.memory, words));
	other(0).order(order);
	other(0).answer();
	HIP(hipMemcpy(in.data(), words, SHARED_WORDS * 4, hipMemcpyDeviceToHost));
	expect_all("changed by another process", in,
		   [](size_t i) { return mix((uint32_t)i) * 3 + 1; });
}

void ipc_memory()
{
	const char *legacy = getenv("HSA_ENABLE_IPC_MODE_LEGACY");
	int version = 0;

	/*
	 * By default ROCr uses two ioctls for this that upstream Linux never had. ROCr of HIP 6 can
	 * be configured to share DMA buffers instead, that of HIP 5.7 cannot.
	 */
	HIP(hipRuntimeGetVersion(&version));
	if (version < 60000000 || !legacy || strcmp(legacy, "0"))
		throw Skipped{
			"this ROCr shares memory with ioctls that upstream Linux does not have"
		};
	/*
	 * Small allocations share one BO, so that the second one does not start at its beginning.
	 */
	Device<uint32_t> first(1000), second(SHARED_WORDS), large(4 * MiB / 4);

	share(second.at);
	share(large.at);
	share(second.at);
}

void ipc_event()
{
	Event event(hipEventInterprocess | hipEventDisableTiming);
	Device<uint32_t> words(64);
	Stream stream;
	Order order = {};

	words.clear();
	multiply_add<<<1, 64, 0, stream.at>>>(words.at, 64, 3, 1);
	HIP(hipEventRecord(event.at, stream.at));
	order.job = Job::OpenEvent;
	HIP(hipIpcGetEventHandle(&order.event, event.at));
	other(1).order(order);
	other(1).answer();
	stream.wait();
}

/* Checks what the runtime reports before it aborts: the page, and that it is not mapped. */
static void check_message(const std::string &output, uint64_t address)
{
	size_t where = output.find("Memory access fault by GPU node-1");
	unsigned long long at = 0;

	if (!EXPECT(where != std::string::npos, "standard error: %s", output.c_str()))
		return;
	std::string line = output.substr(where, output.find('\n', where) - where);
	note("%s", line.c_str());
	where = line.find(" on address ");
	if (EXPECT(where != std::string::npos))
		at = strtoull(line.c_str() + where + strlen(" on address "), NULL, 16);
	EXPECT(at >> 12 == address >> 12, "%#llx instead of %#llx", at,
	       (unsigned long long)address);
	EXPECT(line.find("Page not present") != std::string::npos);
}

/*
 * A child accesses unmapped memory: its call returns an error, or the runtime reports where and why
 * and aborts it; other processes go on.
 */
static void fault(Job job)
{
	Order order = {};
	std::string output;
	int status;

	/* Far from all mappings of either process: unmapped for the GPU, now and later. */
	order.job = job;
	order.address = 0x100000001234;
	Helper &one = other(2);
	one.order(order);
	status = one.end(&output);
	if (FAULTS_ARE_ERRORS) {
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == FAULTED, "status %#x", status);
		EXPECT(output.find("hipErrorIllegalAddress\n") != std::string::npos, "standard error: %s",
		       output.c_str());
	} else {
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", status);
		check_message(output, order.address);
	}
	work(2, 9);
	order = {};
	order.job = Job::Work;
	order.rounds = 2;
	other(0).order(order);
	other(0).answer();
}

void fault_store()
{
	fault(Job::Store);
}

void fault_load()
{
	fault(Job::Load);
}
