// What the CUDA kernels need of CUDA, on a CPU: a block's threads are fibers that take turns at every barrier.
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __constant__ static

struct float4 {
  float x, y, z, w;
};
struct Index {
  int x, y;
};

static Index threadIdx, blockIdx, gridDim;
static float4 *shared_memory;

static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static float inverse(float a) { return 1 / a; }
static float square_root(float a) { return sqrtf(a); }
static float exponential(float a) { return expf(a); }
static float power(float a, float exponent) { return powf(a, exponent); }
static float rsqrtf(float a) { return 1 / sqrtf(a); }
static float __fdividef(float a, float b) { return a / b; }
static int __float_as_int(float a) { int b; memcpy(&b, &a, 4); return b; }
static float __int_as_float(int a) { float b; memcpy(&b, &a, 4); return b; }

struct Fiber {  // begun as a context, and then left and entered by jumps, which ask nothing of the system
  ucontext_t begin;
  jmp_buf place;
  bool begun, done;
};

static int threads;  // of a block
static Fiber fibers[1024];
static ucontext_t scheduler;
static jmp_buf turn;

static void yield_fiber() {
  int me = threadIdx.x;
  if (!_setjmp(fibers[me].place)) _longjmp(turn, 1);
  threadIdx.x = me;
}

static void enter_fiber(int me) {
  threadIdx = {me, 0};
  if (_setjmp(turn)) return;
  if (fibers[me].begun) _longjmp(fibers[me].place, 1);
  fibers[me].begun = true;
  swapcontext(&scheduler, &fibers[me].begin);
}

struct Barrier {
  int arrived = 0, generation = 0;
  void wait(int expected) {
    int before = generation;
    if (++arrived == expected) arrived = 0, generation++;
    while (generation == before) yield_fiber();
  }
};

struct Tiles {
  float a[16][8], b[8][8];
};
struct Warp {  // what is written next does not meet what some still read: between them is a barrier
  Tiles tiles[2];
  Barrier barrier;
};

static Barrier block_barrier, half_barriers[8];
static Warp warps[32];

static void __syncthreads() { block_barrier.wait(threads); }
static void sync_half() { half_barriers[threadIdx.x / 128].wait(128); }
static int __syncthreads_or(int mine) {
  static int any;
  __syncthreads();
  any = 0;
  __syncthreads();
  any |= mine != 0;
  __syncthreads();
  return any;
}
static void atomicMax(int *place, int a) { *place = a > *place ? a : *place; }
static void atomicAdd(float *place, float a) { *place += a; }
static void prefetch(const float *) {}
static unsigned ask(const unsigned *place) { return *place; }

static float tf32(float a) { return __int_as_float(__float_as_int(a) & -8192); }

// D = A B + C, [16, 8] [8, 8]; the elements that a thread has are those of PTX's mma.m16n8k8.
__attribute__((optimize("O2")))  // most of the time that a kernel runs
static void mma(float &c0, float &c1, float &c2, float &c3, const float (&a)[4], float b0, float b1) {
  Barrier &barrier = warps[threadIdx.x / 32].barrier;
  Tiles &tiles = warps[threadIdx.x / 32].tiles[barrier.generation % 2];
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; i++) tiles.a[g + 8 * (i % 2)][t + 4 * (i / 2)] = tf32(a[i]);
  tiles.b[t][g] = tf32(b0), tiles.b[t + 4][g] = tf32(b1);
  barrier.wait(32);
  float *c[4] = {&c0, &c1, &c2, &c3};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 8; k++) *c[i] += tiles.a[g + 8 * (i / 2)][k] * tiles.b[k][2 * t + i % 2];
}

static void warp_barrier() { warps[threadIdx.x / 32].barrier.wait(32); }
static void __syncwarp() { warp_barrier(); }

template <class T>
static T from_lane(T a, int apart) {
  static T lanes[2][1024];
  int side = warps[threadIdx.x / 32].barrier.generation % 2;
  lanes[side][threadIdx.x] = a;
  warp_barrier();
  return lanes[side][threadIdx.x ^ apart];
}

static void copy_later(float *shared, const float *global) { memcpy(shared, global, 16); }

static void await_copies() {}

template <class Shared>
static Shared &shared_as() {
  return *(Shared *)shared_memory;
}

// Runs `kernel`, a function without arguments, on a grid of blocks with so many bytes of shared memory.
template <class Kernel>
static void launch(Kernel kernel, int programs, int replicas, int size, int bytes) {
  const size_t STACK = 1 << 16, BEYOND = 4096;
  static Kernel *current;
  static int finished;
  char *stacks = (char *)malloc(size * STACK), *memory = (char *)malloc(bytes + BEYOND);
  current = &kernel, threads = size, shared_memory = (float4 *)memory;
  gridDim = {programs, replicas};
  for (int block = 0; block < programs * replicas; block++) {
    blockIdx = {block % programs, block / programs};
    memset(memory, 0xff, bytes + BEYOND);  // not numbers, unless they are written first
    finished = 0;
    for (int i = 0; i < threads; i++) {
      ucontext_t &begin = fibers[i].begin;
      getcontext(&begin);
      begin.uc_stack.ss_sp = stacks + i * STACK;
      begin.uc_stack.ss_size = STACK;
      makecontext(&begin, (void (*)())[] { (*current)(); finished++; _longjmp(turn, 1); }, 0);
      fibers[i].begun = fibers[i].done = false;
    }
    while (finished < threads)
      for (int i = 0; i < threads; i++) {
        if (fibers[i].done) continue;
        int before = finished;
        enter_fiber(i);
        fibers[i].done = finished > before;
      }
    for (size_t i = bytes; i < bytes + BEYOND; i++)
      if (memory[i] != (char)0xff) abort();  // written beyond its end
  }
  free(stacks), free(memory);
}
