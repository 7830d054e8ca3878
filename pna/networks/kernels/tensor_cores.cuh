// Code shared by all CUDA kernels: products on the tensor cores, loads and stores of four numbers, activations. TF32
// holds eleven bits of significand; each product is split into three, which keeps the precision of float32.

#define INLINE static __device__ __forceinline__

#ifndef EMULATED
INLINE void mma(float &c0, float &c1, float &c2, float &c3, const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(__float_as_int(a[0])), "r"(__float_as_int(a[1])), "r"(__float_as_int(a[2])), "r"(__float_as_int(a[3])),
        "r"(__float_as_int(b0)), "r"(__float_as_int(b1)));
}

INLINE float inverse(float a) {  // 1 / a for a from 1e-35 to 1e35; __fdividef would also cover the rest
  float b;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
  return b;
}

INLINE float square_root(float a) {  // √a of an a that is not tiny
  float b;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
  return b;
}

// exp(a). Its relative error grows by about 1e-7 per unit of a; activations, flat for large a, reduce it to one bit.
INLINE float exponential(float a) {
  float b;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a * 1.4426950408889634f));
  return b;
}

// a^exponent. Its relative error grows by about 1e-7 per unit of the result's exponent to base 2.
INLINE float power(float a, float exponent) {  // a > 0
  float b;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(exponent * b));
  return b;
}

template <class T>
INLINE T from_lane(T a, int apart) {
  return __shfl_xor_sync(0xffffffffu, a, apart);
}
#endif

INLINE int thread_g() { return (threadIdx.x & 31) >> 2; }
INLINE int thread_t() { return threadIdx.x & 3; }

struct alignas(8) Pair {
  float x, y;
};

INLINE float4 get4(const float *place) { return *(const float4 *)place; }

INLINE void put4(float *place, const float *v) { *(float4 *)place = make_float4(v[0], v[1], v[2], v[3]); }

INLINE void set4(float *v, float4 f) { v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w; }

// Reads N numbers from an offset that is a multiple of N: four, two or one at a time.
template <int N>
INLINE void get_n(float *v, const float *place) {
#pragma unroll
  for (int i = 0; i < N; i += N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1) {
    if (N % 4 == 0) set4(v + i, get4(place + i));
    else if (N % 2 == 0) *(Pair *)(v + i) = *(const Pair *)(place + i);
    else v[i] = place[i];
  }
}

template <int N>
INLINE void put_n(float *place, const float *v) {
#pragma unroll
  for (int i = 0; i < N; i += N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1) {
    if (N % 4 == 0) put4(place + i, v + i);
    else if (N % 2 == 0) *(Pair *)(place + i) = *(const Pair *)(v + i);
    else place[i] = v[i];
  }
}

template <int N>
struct Split {  // the bits that TF32 can hold, and the remainder
  float high[N], low[N];
};

// Mask of the bits that TF32 holds, in constant memory to hide it from the compiler, which would otherwise leave the
// truncation to the tensor cores, and copy numbers into their operands instead of truncating them into place.
__constant__ int HIGH = -8192;

INLINE float high_half(float a) { return __int_as_float(__float_as_int(a) & HIGH); }

template <int N>
INLINE Split<N> split(const float (&a)[N]) {
  Split<N> s;
#pragma unroll
  for (int i = 0; i < N; i++) {
    s.high[i] = high_half(a[i]);
    s.low[i] = a[i] - s.high[i];
  }
  return s;
}

INLINE float sigmoid(float a) { return inverse(1.0f + exponential(-fmaxf(a, -80.0f))); }

INLINE float tanh_of(float a) {  // the exponential of a negative number cannot overflow
  float e = exponential(-2 * fabsf(a));
  return copysignf((1 - e) * inverse(1 + e), a);
}
