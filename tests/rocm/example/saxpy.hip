// SPDX-License-Identifier: GPL-2.0 OR MIT
// The example of Documentation/ci.rst: y = 2x + y on the GPU, compared with the CPU.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

__global__ void saxpy(int n, float a, const float *x, float *y)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}

int main()
{
	const int n = 1 << 16;
	std::vector<float> x(n), y(n, 1.0f);
	float *on_gpu[2];
	int wrong = 0;

	for (int i = 0; i < n; i++)
		x[i] = float(i);
	for (auto *&p : on_gpu)
		if (hipMalloc(reinterpret_cast<void **>(&p), n * sizeof(float)) != hipSuccess)
			return 2;
	if (hipMemcpy(on_gpu[0], x.data(), n * sizeof(float), hipMemcpyHostToDevice) != hipSuccess ||
	    hipMemcpy(on_gpu[1], y.data(), n * sizeof(float), hipMemcpyHostToDevice) != hipSuccess)
		return 2;
	saxpy<<<n / 256, 256>>>(n, 2.0f, on_gpu[0], on_gpu[1]);
	if (hipMemcpy(y.data(), on_gpu[1], n * sizeof(float), hipMemcpyDeviceToHost) != hipSuccess)
		return 2;
	for (int i = 0; i < n; i++)
		wrong += y[i] != 2.0f * float(i) + 1.0f;
	printf("%d of %d wrong\n", wrong, n);
	return wrong != 0;
}
