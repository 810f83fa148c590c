/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of vectors, checked; with an argument a kernel that spins for a minute. */
#include <stdio.h>

__global__ void add(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

__global__ void spin(long long ns)
{
	long long begin, now;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	while (now - begin < ns);
}

int main(int argc, char **argv)
{
	const int n = 1 << 20;
	float *a, *b, *c;

	(void)argv;
	if (argc > 1) {
		printf("spinning\n");
		fflush(stdout);
		spin<<<128, 64>>>(60000000000ll);
		return cudaDeviceSynchronize() != cudaSuccess;
	}
	if (cudaMallocManaged(&a, n * 4) || cudaMallocManaged(&b, n * 4) ||
	    cudaMallocManaged(&c, n * 4)) {
		printf("no memory: %s\n", cudaGetErrorString(cudaGetLastError()));
		return 1;
	}
	for (int i = 0; i < n; i++) {
		a[i] = i;
		b[i] = 2 * i;
	}
	add<<<(n + 255) / 256, 256>>>(a, b, c, n);
	if (cudaDeviceSynchronize() != cudaSuccess)
		return 1;
	for (int i = 0; i < n; i++)
		if (c[i] != a[i] + b[i]) {
			printf("WRONG\n");
			return 1;
		}
	printf("right\n");
	return 0;
}
