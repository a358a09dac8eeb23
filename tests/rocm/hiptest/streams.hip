// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests streams: copies and kernels on eight streams with events between them, callbacks,
 * priorities, and long sequences of launches.
 */
#include "hiptest.h"

#include <atomic>
#include <memory>
#include <unistd.h>

#define THREADS 256u
#define STREAMS 8u

/* The two operations do not commute, so that every wrong order is detected. */
static __host__ __device__ uint32_t step(uint32_t x, uint32_t by)
{
	return x * 0x01000193u + by;
}

static __global__ void step_all(uint32_t *words, uint32_t count, uint32_t by)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		words[i] = step(words[i], by);
}

static __global__ void mix_in(uint32_t *words, const uint32_t *others, uint32_t count)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		words[i] = step(words[i], others[i]);
}

/*
 * Per round each stream: copies from the host, runs a kernel, adds its neighbour's result of the
 * same round (after an event), copies within the device, runs a kernel, and copies to the host. The
 * next round starts after its neighbour has read (another event).
 */
void streams()
{
	const uint32_t count = 20000, rounds = 6;
	const size_t bytes = count * 4;
	std::vector<std::unique_ptr<Stream>> stream;
	std::vector<std::unique_ptr<Event>> made, taken;
	std::vector<std::unique_ptr<Pinned<uint32_t>>> host;
	std::vector<std::unique_ptr<Device<uint32_t>>> a, b;
	std::vector<std::vector<uint32_t>> want(STREAMS);

	for (uint32_t s = 0; s < STREAMS; s++) {
		stream.emplace_back(new Stream);
		made.emplace_back(new Event(s % 2 ? hipEventDisableTiming : hipEventDefault));
		taken.emplace_back(new Event(hipEventDisableTiming));
		host.emplace_back(new Pinned<uint32_t>(count));
		a.emplace_back(new Device<uint32_t>(count));
		b.emplace_back(new Device<uint32_t>(count));
		for (uint32_t i = 0; i < count; i++)
			(*host[s])[i] = mix(i + s);
		want[s].assign(host[s]->at, host[s]->at + count);
	}
	for (uint32_t round = 0; round < rounds; round++) {
		for (uint32_t s = 0; s < STREAMS; s++) {
			hipStream_t on = stream[s]->at;

			if (round)
				HIP(hipStreamWaitEvent(on, taken[s]->at, 0));
			HIP(hipMemcpyAsync(a[s]->at, host[s]->at, bytes, hipMemcpyHostToDevice,
					   on));
			step_all<<<4, THREADS, 0, on>>>(a[s]->at, count, round * STREAMS + s);
			HIP(hipEventRecord(made[s]->at, on));
		}
		for (uint32_t s = 0; s < STREAMS; s++) {
			uint32_t other = (s + 3) % STREAMS;
			hipStream_t on = stream[s]->at;

			HIP(hipMemcpyAsync(b[s]->at, a[s]->at, bytes, hipMemcpyDeviceToDevice, on));
			HIP(hipStreamWaitEvent(on, made[other]->at, 0));
			mix_in<<<3, THREADS, 0, on>>>(b[s]->at, a[other]->at, count);
			HIP(hipEventRecord(taken[other]->at, on));
			HIP(hipMemcpyAsync(host[s]->at, b[s]->at, bytes, hipMemcpyDeviceToHost,
					   on));
		}
		std::vector<std::vector<uint32_t>> between(want), before;
		for (uint32_t s = 0; s < STREAMS; s++)
			for (uint32_t &x : between[s])
				x = step(x, round * STREAMS + s);
		for (uint32_t s = 0; s < STREAMS; s++)
			for (uint32_t i = 0; i < count; i++)
				want[s][i] = step(between[s][i], between[(s + 3) % STREAMS][i]);
	}
	HIP(hipDeviceSynchronize());
	for (uint32_t s = 0; s < STREAMS; s++) {
		EXPECT_HIP(hipStreamQuery(stream[s]->at), hipSuccess);
		expect_all("a stream's result", host[s]->at, count,
			   [&](size_t i) { return want[s][i]; });
	}
}

static __global__ void spin(uint32_t *word, uint32_t rounds)
{
	uint32_t x = *word;

	for (uint32_t i = 0; i < rounds; i++)
		x = step(x, i);
	*word = x;
}

void events()
{
	Stream stream;
	Event first, second, never(hipEventDisableTiming);
	Device<uint32_t> word(1);
	float ms = -1;

	word.clear();
	EXPECT_HIP(hipEventQuery(never.at), hipSuccess);
	HIP(hipEventRecord(first.at, stream.at));
	spin<<<1, 1, 0, stream.at>>>(word.at, 20000);
	HIP(hipEventRecord(second.at, stream.at));
	HIP(hipEventSynchronize(second.at));
	EXPECT_HIP(hipEventQuery(first.at), hipSuccess);
	EXPECT_HIP(hipEventQuery(second.at), hipSuccess);
	HIP(hipEventElapsedTime(&ms, first.at, second.at));
	EXPECT(ms > 0 && ms < 60000, "%g ms", (double)ms);
	note("20000 rounds of one lane take %.3f ms of GPU time", (double)ms);
	HIP(hipEventElapsedTime(&ms, second.at, first.at));
	EXPECT(ms < 0, "negative time: %g ms", (double)ms);
	EXPECT_HIP(hipEventElapsedTime(&ms, first.at, never.at), hipErrorInvalidHandle);
	stream.wait();
}

/* One buffer passes through all streams, fifty times, each waiting for the previous one. */
void ordering()
{
	const uint32_t count = 512;
	std::vector<std::unique_ptr<Stream>> stream;
	std::vector<std::unique_ptr<Event>> event;
	std::vector<uint32_t> want(count);

	for (uint32_t i = 0; i < count; i++)
		want[i] = mix(i);
	Device<uint32_t> words(want);
	for (uint32_t s = 0; s < STREAMS; s++) {
		stream.emplace_back(new Stream);
		event.emplace_back(new Event(hipEventDisableTiming));
	}
	for (uint32_t n = 0; n < 50 * STREAMS; n++) {
		uint32_t s = n % STREAMS;

		if (n)
			HIP(hipStreamWaitEvent(stream[s]->at, event[(n - 1) % STREAMS]->at, 0));
		step_all<<<1, THREADS, 0, stream[s]->at>>>(words.at, count, n);
		HIP(hipEventRecord(event[s]->at, stream[s]->at));
		for (uint32_t &x : want)
			x = step(x, n);
	}
	HIP(hipDeviceSynchronize());
	expect_all("through all streams", words.get(), [&](size_t i) { return want[i]; });
}

struct Called {
	std::atomic<uint32_t> count;
	volatile uint32_t *word;
	uint32_t seen[4];
};

static void call_back(void *data)
{
	Called *c = (Called *)data;
	uint32_t n = c->count++;

	if (n < 4)
		c->seen[n] = *c->word;
}

/* Host functions run between the kernels of the stream, neither before nor after. */
void host_functions()
{
	Stream stream;
	Pinned<uint32_t> word(1, hipHostMallocMapped | hipHostMallocCoherent);
	Called called = {};
	uint32_t want = 1;

	word[0] = 1;
	called.word = word.at;
	for (uint32_t i = 0; i < 4; i++) {
		step_all<<<1, 1, 0, stream.at>>>(word.at, 1, i);
		HIP(hipLaunchHostFunc(stream.at, call_back, &called));
	}
	stream.wait();
	EXPECT(called.count == 4, "%u", (uint32_t)called.count);
	for (uint32_t i = 0; i < 4; i++) {
		want = step(want, i);
		EXPECT(called.seen[i] == want, "function %u saw %#x, not %#x", i, called.seen[i],
		       want);
	}
}

void priorities()
{
	int least, greatest;
	std::vector<hipStream_t> stream;
	std::vector<uint32_t> start(64, 5);
	uint32_t want = 5;

	HIP(hipDeviceGetStreamPriorityRange(&least, &greatest));
	EXPECT(greatest <= least, "%d %d", greatest, least);
	Device<uint32_t> words(start);
	for (int priority = greatest; priority <= least; priority++) {
		hipStream_t one;
		int got = 1000;

		HIP(hipStreamCreateWithPriority(&one, hipStreamNonBlocking, priority));
		HIP(hipStreamGetPriority(one, &got));
		EXPECT(got == priority, "%d, not %d", got, priority);
		step_all<<<1, 64, 0, one>>>(words.at, 64, (uint32_t)priority);
		HIP(hipStreamSynchronize(one));
		want = step(want, (uint32_t)priority);
		stream.push_back(one);
	}
	expect_all("streams of each priority", words.get(), [=](size_t) { return want; });
	for (hipStream_t one : stream)
		HIP(hipStreamDestroy(one));
}

/* More launches than a ring holds, with a single wait at the end; each kernel has one thread. */
void launches()
{
	const uint32_t rounds = 3000;
	std::vector<uint32_t> start(64, 9);
	uint32_t want = 9;
	double begin = seconds_now();

	Device<uint32_t> words(start);
	for (uint32_t i = 0; i < rounds; i++) {
		step_all<<<1, 64>>>(words.at, 64, i);
		want = step(want, i);
	}
	HIP(hipGetLastError());
	HIP(hipDeviceSynchronize());
	note("%.0f us for a launch", (seconds_now() - begin) * 1e6 / rounds);
	expect_all("after all launches", words.get(), [=](size_t) { return want; });
}
