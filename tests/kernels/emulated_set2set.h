// What set2set.cu needs of CUDA beside emulated.h.
#include "emulated.h"

#define __constant__ static

static float inverse(float a) { return 1 / a; }

static void warp_barrier() { warps[threadIdx.x / 32].barrier.wait(32); }

static float from_lane(float a, int apart) {
  static float lanes[1024];
  lanes[threadIdx.x] = a;
  warp_barrier();
  float theirs = lanes[threadIdx.x ^ apart];
  warp_barrier();
  return theirs;
}

static void copy_later(float *shared, const float *global) { memcpy(shared, global, 16); }

static void await_copies() {}

template <class Shared>
static Shared &shared_as() {
  return *(Shared *)shared_memory;
}
