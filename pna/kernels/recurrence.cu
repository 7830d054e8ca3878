// The three kernels of a recurrent PNA network's layers, for H = 16: recurrence_forward.py and
// recurrence_backward.py have the same in Triton, say what they compute, and name the tensors. Compiled at run time,
// one kernel and one configuration at a time.
//
// Products are taken by the tensor cores in TF32, three for each so that float32's precision stays. A warp has 16
// nodes: its thread (g, t) has the features 4t … 4t + 3 of the nodes g and g + 8, which is where the tensor cores want
// the left operand and leave the result if the features are numbered suitably. So activations stay in registers from
// one product to the next, and are read and written 16 bytes at a time. Only gradients of weights, which sum over
// nodes, need them across threads: through shared memory.

#define LAYER_FORWARD 0
#define NODE_BACKWARD 1
#define AGGREGATES_BACKWARD 2

#define INLINE static __device__ __forceinline__

constexpr int WARPS = PNA_WARPS;        // of a block, a multiple of four: 16 nodes each
constexpr int RESIDENT = PNA_RESIDENT;  // blocks that a multiprocessor shall hold
constexpr int UNROLL = PNA_UNROLL;      // neighbours that are loaded together
constexpr int H = 16, HH = H * H;
constexpr int TILE = 16 * WARPS;  // nodes of a block
constexpr float SLOPE = 0.01f;    // of LeakyReLU
constexpr int OWN = 0, MIX = 1, COMBINED = 2;

#ifndef EMULATED
extern __shared__ float4 shared_memory[];

INLINE void mma(float &c0, float &c1, float &c2, float &c3, const float (&a)[4], float b0, float b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(__float_as_int(a[0])), "r"(__float_as_int(a[1])), "r"(__float_as_int(a[2])), "r"(__float_as_int(a[3])),
        "r"(__float_as_int(b0)), "r"(__float_as_int(b1)));
}
#endif

INLINE int thread_g() { return (threadIdx.x & 31) >> 2; }
INLINE int thread_t() { return threadIdx.x & 3; }

// ---- Activations ----------------------------------------------------------------------------------------------------

struct Rows {
  float v[8];  // four features of node g, then of node g + 8
};

struct Split {  // the first eleven bits of the significand, all that TF32 holds, and the rest
  float high[8], low[8];
};

INLINE float high_half(float a) { return __int_as_float(__float_as_int(a) & -8192); }

INLINE Split split(const Rows &a) {
  Split s;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    s.high[i] = high_half(a.v[i]);
    s.low[i] = a.v[i] - s.high[i];
  }
  return s;
}

INLINE float4 get4(const float *place) { return *(const float4 *)place; }

INLINE void put4(float *place, const float *v) { *(float4 *)place = make_float4(v[0], v[1], v[2], v[3]); }

INLINE void set4(float *v, float4 f) { v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w; }

INLINE Rows both(float4 f) {
  Rows rows;
  set4(rows.v, f);
  set4(rows.v + 4, f);
  return rows;
}

INLINE Rows zeros() { return both(make_float4(0, 0, 0, 0)); }

// The rows of nodes first + g and first + g + 8 of an array with `stride` numbers for each node; zeros after the last.
INLINE Rows get(const float *base, int first, int V, int stride = H) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int node = first + thread_g() + 8 * i;
    set4(rows.v + 4 * i, node < V ? get4(base + (size_t)node * stride + 4 * thread_t()) : make_float4(0, 0, 0, 0));
  }
  return rows;
}

INLINE void put(float *base, int first, int V, const Rows &rows, int stride = H) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int node = first + thread_g() + 8 * i;
    if (node < V) put4(base + (size_t)node * stride + 4 * thread_t(), rows.v + 4 * i);
  }
}

INLINE Rows bias_rows(const float *bias, int k) { return both(get4(bias + k * H + 4 * thread_t())); }

// ---- Products -------------------------------------------------------------------------------------------------------

// sum += a Mᵀ, M [out, in] in shared memory.
INLINE void product(Rows &sum, const Split &a, const float *M) {
#pragma unroll
  for (int n = 0; n < 2; n++) {
    float *c = sum.v + 2 * n;
    int g = thread_g();
    float w[4], high[4], low[4];
    set4(w, get4(M + (4 * (g >> 1) + 2 * n + (g & 1)) * H + 4 * thread_t()));
#pragma unroll
    for (int i = 0; i < 4; i++) {
      high[i] = high_half(w[i]);
      low[i] = w[i] - high[i];
    }
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      float a_high[4] = {a.high[k], a.high[k + 4], a.high[k + 1], a.high[k + 5]};
      float a_low[4] = {a.low[k], a.low[k + 4], a.low[k + 1], a.low[k + 5]};
      mma(c[0], c[1], c[4], c[5], a_low, high[k], high[k + 1]);
      mma(c[0], c[1], c[4], c[5], a_high, low[k], low[k + 1]);
      mma(c[0], c[1], c[4], c[5], a_high, high[k], high[k + 1]);
    }
  }
}

// Matrices to shared memory, as they are or transposed.
INLINE void load_matrices(float *to, const float *from, int count) {
  for (int i = threadIdx.x; i < count * HH / 4; i += 32 * WARPS) ((float4 *)to)[i] = ((const float4 *)from)[i];
}

INLINE void load_transposed(float *to, const float *from, int count) {
  for (int i = threadIdx.x; i < count * HH; i += 32 * WARPS) {
    int out = i / H % H, in = i % H;
    to[i - i % HH + in * H + out] = from[i];
  }
}

// Sums over 64 nodes of a tile in shared memory: c[k] += Aᵀ B_k, [16, 8] each, for A at column a of the tile and B_k
// at column b[k]; of_bias += Aᵀ 1. Rows of the tile are 8 or 24 words apart modulo 32, so that no two threads meet in
// a bank.
template <int N, bool BIAS>
INLINE void outer(float (*c)[4], float *of_bias, const float *tile, int stride, int a, const int (&b)[N]) {
  const float *row = tile + thread_t() * stride + thread_g();
#pragma unroll 2
  for (int node = 0; node < 64; node += 8, row += 8 * stride) {
    float high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = row[(i >> 1) * 4 * stride + a + 8 * (i & 1)];
      high[i] = high_half(value);
      low[i] = value - high[i];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
      float b0 = row[b[k]], b1 = row[4 * stride + b[k]];
      float h0 = high_half(b0), h1 = high_half(b1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], low, h0, h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, b0 - h0, b1 - h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, h0, h1);
    }
    if (BIAS) {
      mma(of_bias[0], of_bias[1], of_bias[2], of_bias[3], low, 1.0f, 1.0f);
      mma(of_bias[0], of_bias[1], of_bias[2], of_bias[3], high, 1.0f, 1.0f);
    }
  }
}

// Adds `count` such sums, of neighbouring columns, to their place in memory, where rows and columns are so far apart.
INLINE void add_matrix(float *place, int rows, int columns, const float (*c)[4], int count) {
  place += thread_g() * rows + 2 * thread_t() * columns;
#pragma unroll
  for (int k = 0; k < count; k++)
#pragma unroll
    for (int i = 0; i < 4; i++) place[(i >> 1) * 8 * rows + (8 * k + (i & 1)) * columns] += c[k][i];
}

INLINE void add_bias(float *place, int apart, const float *of_bias) {
  if (thread_t() == 0) {
    place[thread_g() * apart] += of_bias[0];
    place[(thread_g() + 8) * apart] += of_bias[2];
  }
}

// ---- The GRU --------------------------------------------------------------------------------------------------------

struct Gates {
  Rows r, u, n, b;
};

INLINE float sigmoid(float a) { return __fdividef(1.0f, 1.0f + expf(-fmaxf(a, -80.0f))); }

INLINE float tanh_of(float a) {  // by the exponential of a negative number, so that it never overflows
  float e = expf(-2 * fabsf(a));
  return copysignf(__fdividef(1 - e, 1 + e), a);
}

INLINE Gates gru(const Split &x, const Split &z, const float *W, const float *bias) {
  Gates s = {bias_rows(bias, 0), bias_rows(bias, 1), bias_rows(bias, 2), bias_rows(bias, 5)};
  Rows more_r = bias_rows(bias, 3), more_u = bias_rows(bias, 4);
  product(s.r, x, W);
  product(s.u, x, W + HH);
  product(s.n, x, W + 2 * HH);
  product(more_r, z, W + 3 * HH);
  product(more_u, z, W + 4 * HH);
  product(s.b, z, W + 5 * HH);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    s.r.v[i] = sigmoid(s.r.v[i] + more_r.v[i]);
    s.u.v[i] = sigmoid(s.u.v[i] + more_u.v[i]);
    s.n.v[i] = tanh_of(s.n.v[i] + s.r.v[i] * s.b.v[i]);
  }
  return s;
}

// ---- Neighbourhoods -------------------------------------------------------------------------------------------------

struct Degrees {  // of nodes g and g + 8
  int start[2], degree[2];
};

INLINE Degrees degrees_of(const int *ptr, int first, int V) {
  Degrees d;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int node = first + thread_g() + 8 * i;
    d.start[i] = node < V ? ptr[node] : 0;
    d.degree[i] = node < V ? ptr[node + 1] - d.start[i] : 0;
  }
  return d;
}

#if PNA_KERNEL != NODE_BACKWARD

constexpr int A = PNA_A, S = PNA_S;
constexpr int MEAN = PNA_MEAN, STD = PNA_STD, MAX = PNA_MAX, MIN = PNA_MIN, SUM = PNA_SUM;  // -1 if there is none
constexpr bool SWAP = PNA_SWAP;
constexpr float EPS = PNA_EPS, INF = 3.4e38f;
constexpr bool MEANS = MEAN >= 0 || SUM >= 0, EXTREMES = MAX >= 0 || MIN >= 0, OTHERS = MEANS || STD >= 0;

struct Gathered {  // of the senders' parts of the messages, without the receiver's; how often an extreme is taken
  Rows mean, deviation, top, low, tops, lows;
};

// Sums are of differences to the first neighbour, so that the variance does not cancel.
template <bool COUNTS>
INLINE void gather_node(Gathered &all, int i, const float *p, const float *q, const int *neighbour, int degree) {
  float first[4] = {}, total[4] = {}, squares[4] = {}, top[4], low[4], tops[4] = {}, lows[4] = {};
#pragma unroll
  for (int c = 0; c < 4; c++) top[c] = -INF, low[c] = INF;
  for (int k = 0; k < degree; k += UNROLL) {
    float m[UNROLL][4], e[UNROLL][4];
#pragma unroll
    for (int n = 0; n < UNROLL; n++) {
      int j = neighbour[min(k + n, degree - 1)] * H + 4 * thread_t();
      if (OTHERS || !SWAP) set4(m[n], get4(p + j));
      if (EXTREMES && SWAP) set4(e[n], get4(q + j));
    }
    if (k == 0 && OTHERS)
#pragma unroll
      for (int c = 0; c < 4; c++) first[c] = m[0][c];
#pragma unroll
    for (int n = 0; n < UNROLL; n++) {
      bool live = k + n < degree;
#pragma unroll
      for (int c = 0; c < 4; c++) {
        if (OTHERS) {
          float difference = live ? m[n][c] - first[c] : 0.0f;
          total[c] += difference;
          squares[c] += difference * difference;
        }
        if (EXTREMES) {  // a neighbour that is not live repeats the last: only the counts would notice
          float value = SWAP ? e[n][c] : m[n][c];
          if (COUNTS && live) {
            tops[c] = value > top[c] ? 1.0f : tops[c] + (value == top[c] ? 1.0f : 0.0f);
            lows[c] = value < low[c] ? 1.0f : lows[c] + (value == low[c] ? 1.0f : 0.0f);
          }
          top[c] = fmaxf(top[c], value);
          low[c] = fminf(low[c], value);
        }
      }
    }
  }
  float share = 1.0f / fmaxf(degree, 1);
#pragma unroll
  for (int c = 0; c < 4; c++) {
    float away = total[c] * share;
    all.mean.v[4 * i + c] = first[c] + away;
    all.deviation.v[4 * i + c] = degree > 0 ? sqrtf(fmaxf(squares[c] * share - away * away, 0.0f) + EPS) : 0.0f;
    all.top.v[4 * i + c] = degree > 0 ? top[c] : 0.0f;
    all.low.v[4 * i + c] = degree > 0 ? low[c] : 0.0f;
    all.tops.v[4 * i + c] = tops[c];
    all.lows.v[4 * i + c] = lows[c];
  }
}

template <bool COUNTS>
INLINE Gathered gather(const float *p, const float *q, const int *column, const Degrees &d) {
  Gathered all;
#pragma unroll
  for (int i = 0; i < 2; i++) gather_node<COUNTS>(all, i, p, q, column + d.start[i], d.degree[i]);
  __syncwarp();
  return all;
}

// Adds the receiver's part of the messages, which shifts mean, maximum and minimum.
INLINE void shift(Rows &mean, Rows &top, Rows &low, const Rows &p, const Rows &q, const Rows &bias, const Degrees &d) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    bool some = d.degree[i / 4] > 0;
    float target = some ? q.v[i] + bias.v[i] : 0.0f;
    float other = SWAP ? (some ? p.v[i] + bias.v[i] : 0.0f) : target;
    mean.v[i] += target;
    top.v[i] += other;
    low.v[i] += other;
  }
}

// The factors S(d, 1) and S(d, -1) of equation 6; 1 for the identity.
INLINE void scaler_factors(float (&factors)[S][2], const Degrees &d, float delta) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    factors[0][i] = 1.0f;
    if (S == 3) {
      factors[S / 2][i] = __fdividef(logf(d.degree[i] + 1.0f), delta);
      factors[S - 1][i] = __fdividef(delta, logf(fmaxf(d.degree[i], 1) + 1.0f));
    }
  }
}

INLINE Rows scaled(const Rows &a, const float (&factors)[2]) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 8; i++) rows.v[i] = a.v[i] * factors[i / 4];
  return rows;
}

INLINE Rows times_degree(const Rows &a, const Degrees &d) {
  float factors[2] = {(float)d.degree[0], (float)d.degree[1]};
  return scaled(a, factors);
}

#endif

#if PNA_KERNEL == LAYER_FORWARD

constexpr bool KEEP = PNA_KEEP;

// Adds the products of one aggregate with U's matrices, one for each scaler.
INLINE void combine(Rows (&sums)[S], const Rows &aggregate, const float *U, int a) {
  Split s = split(aggregate);
#pragma unroll
  for (int k = 0; k < S; k++) product(sums[k], s, U + (COMBINED + k * A + a) * HH);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) layer_forward(
    const float *x, const float *p, const float *q, float *new_x, float *new_p, float *new_q, float *kept_y,
    float *kept_z, const int *ptr, const int *column, const float *delta, const float *update, const float *bias,
    const float *gru_weights, const float *gru_bias, const float *next_projection, int V, int x_stride) {
  constexpr int COUNT = COMBINED + S * A;
  const int r = blockIdx.y;
  const size_t plane = (size_t)r * V * H;
  float *U = (float *)shared_memory, *G = U + COUNT * HH, *P = G + 6 * HH, *biases = P + 2 * HH;
  load_matrices(U, update + r * COUNT * HH, COUNT);
  load_matrices(G, gru_weights + r * 6 * HH, 6);
  load_matrices(P, next_projection + r * 2 * HH, 2);
  for (int i = threadIdx.x; i < 9 * H; i += 32 * WARPS)
    biases[i] = i < 3 * H ? bias[r * 3 * H + i] : gru_bias[r * 6 * H + i - 3 * H];
  __syncthreads();
  x += (size_t)r * x_stride;
  p += plane;
  q += plane;
  for (int first = (blockIdx.x * WARPS + threadIdx.x / 32) * 16; first < V; first += gridDim.x * TILE) {
    Degrees d = degrees_of(ptr, first, V);
    Rows own_x = get(x, first, V), own_p = get(p, first, V), own_q = get(q, first, V);  // early: memory is far
    Gathered all = gather<false>(p, q, column, d);
    shift(all.mean, all.top, all.low, own_p, own_q, bias_rows(biases, 0), d);
    Rows sums[S];
#pragma unroll
    for (int k = 0; k < S; k++) sums[k] = k == 0 ? bias_rows(biases, 1) : zeros();
    if (MEAN >= 0) combine(sums, all.mean, U, MEAN);
    if (STD >= 0) combine(sums, all.deviation, U, STD);
    if (MAX >= 0) combine(sums, all.top, U, MAX);
    if (MIN >= 0) combine(sums, all.low, U, MIN);
    if (SUM >= 0) combine(sums, times_degree(all.mean, d), U, SUM);
    Split state = split(own_x);
    product(sums[0], state, U + OWN * HH);
    float factors[S][2];
    scaler_factors(factors, d, delta[r]);
    Rows y = sums[0], z = bias_rows(biases, 2);
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int k = 1; k < S; k++) y.v[i] += factors[k][i / 4] * sums[k].v[i];
    product(z, split(y), U + MIX * HH);
#pragma unroll
    for (int i = 0; i < 8; i++) z.v[i] = z.v[i] > 0 ? z.v[i] : SLOPE * z.v[i];
    if (KEEP) {
      put(kept_y + plane, first, V, y);
      put(kept_z + plane, first, V, z);
    }
    Gates gates = gru(state, split(z), G, biases + 3 * H);
    Rows next;
#pragma unroll
    for (int i = 0; i < 8; i++) next.v[i] = gates.n.v[i] + gates.u.v[i] * (z.v[i] - gates.n.v[i]);
    put(new_x + plane, first, V, next);
    Split s = split(next);
    Rows sender = zeros(), receiver = zeros();
    product(sender, s, P);
    product(receiver, s, P + HH);
    put(new_p + plane, first, V, sender);
    put(new_q + plane, first, V, receiver);
  }
}

#elif PNA_KERNEL == NODE_BACKWARD

constexpr int C = PNA_C, COUNT = PNA_COUNT;
constexpr bool MEANS = PNA_MEANS, SPREAD = PNA_SPREAD, MAXIMUM = PNA_MAXIMUM, MINIMUM = PNA_MINIMUM, SWAP = PNA_SWAP;
constexpr bool LAST = PNA_LAST, LAYER = PNA_LAYER;

// The gradients of p and q of one node as a sender: one pass over its receivers' coefficients.
INLINE void gather_gradient(
    Rows &grad_p, Rows &grad_q, int i, const Rows &own_p, const Rows &own_q, const float *coefficients,
    const int *neighbour, int degree) {
#pragma unroll
  for (int c = 0; c < 4; c++) grad_p.v[4 * i + c] = grad_q.v[4 * i + c] = 0.0f;
  constexpr int slope = MEANS, top = slope + 2 * SPREAD, low = top + 2 * MAXIMUM;
  for (int k = 0; k < degree; k += UNROLL) {
    float parts[UNROLL][C][4];
#pragma unroll
    for (int n = 0; n < UNROLL; n++) {
      const float *base = coefficients + (size_t)neighbour[min(k + n, degree - 1)] * (C * H) + 4 * thread_t();
#pragma unroll
      for (int m = 0; m < C; m++) set4(parts[n][m], get4(base + m * H));
    }
#pragma unroll
    for (int n = 0; n < UNROLL; n++) {
      const float(&part)[C][4] = parts[n];
      if (k + n >= degree) break;
#pragma unroll
      for (int c = 0; c < 4; c++) {
        float p = own_p.v[4 * i + c], e = SWAP ? own_q.v[4 * i + c] : p, sum = 0.0f, extreme = 0.0f;
        if (MEANS) sum += part[0][c];
        if (SPREAD) sum += part[slope][c] * (p - part[slope + SPREAD][c]);
        if (MAXIMUM) extreme += part[top + MAXIMUM][c] == e ? part[top][c] : 0.0f;
        if (MINIMUM) extreme += part[low + MINIMUM][c] == e ? part[low][c] : 0.0f;
        grad_p.v[4 * i + c] += SWAP ? sum : sum + extreme;
        if (SWAP) grad_q.v[4 * i + c] += extreme;
      }
    }
  }
}

// Where the quantities of a tile's nodes lie in shared memory: first what concerns the projections, then all else.
constexpr int SENT_P = 0, SENT_Q = 16, NEW_X = 32;
constexpr int D_R = 0, D_U = 16, D_N = 32, D_B = 48, D_Z = 64, D_Y = 80, X = 96, Z = 112, Y = 128;
constexpr int STRIDE = 9 * H + 8;

// Each of four warps sums the gradients of its own weights over 64 nodes: r with x and z; u likewise; n with x and b
// with z; mixing and U's own matrix. And a half of a projection. The warps 4 … 7 take 64 more nodes.
struct Sums {
  float c[4][4], bias[2][4], projection[1][4];
};

INLINE void sum_gates(Sums &s, const float *tile) {
  const int role = threadIdx.x / 32 % 4;
  tile += threadIdx.x / 128 * 64 * STRIDE;
  if (role < 2) {
    const int columns[4] = {X, X + 8, Z, Z + 8};
    outer<4, true>(s.c, s.bias[0], tile, STRIDE, role == 0 ? D_R : D_U, columns);
  } else {
    const int one = role == 2 ? X : Y, two = role == 2 ? Z : X;
    const int ones[2] = {one, one + 8}, twos[2] = {two, two + 8};
    outer<2, true>(s.c, s.bias[0], tile, STRIDE, role == 2 ? D_N : D_Z, ones);
    outer<2, true>(s.c + 2, s.bias[1], tile, STRIDE, role == 2 ? D_B : D_Y, twos);
  }
}

INLINE void sum_projections(Sums &s, const float *tile) {
  const int role = threadIdx.x / 32 % 4;
  const int columns[1] = {NEW_X + role % 2 * 8};
  tile += threadIdx.x / 128 * 64 * STRIDE;
  outer<1, false>(s.projection, nullptr, tile, STRIDE, role < 2 ? SENT_P : SENT_Q, columns);
}

INLINE void add_sums(const Sums &s, float *projection, float *node, float *gru, float *bias) {
  const int role = threadIdx.x / 32 % 4;
  if (!LAST) add_matrix(projection + role / 2 * H + role % 2 * 8, 2 * H, 1, s.projection, 1);
  if (!LAYER) return;
  if (role < 2) {
    add_matrix(gru + role * H, 4 * H, 1, s.c, 2);
    add_matrix(gru + 4 * HH + role * H, 4 * H, 1, s.c + 2, 2);
    add_bias(bias + 2 * H + role, 4, s.bias[0]);
  } else if (role == 2) {
    add_matrix(gru + 2 * H, 4 * H, 1, s.c, 2);
    add_matrix(gru + 4 * HH + 3 * H, 4 * H, 1, s.c + 2, 2);
    add_bias(bias + 2 * H + 2, 4, s.bias[0]);
    add_bias(bias + 2 * H + 3, 4, s.bias[1]);
  } else {
    add_matrix(node + HH, H, 1, s.c, 2);
    add_matrix(node, H, 1, s.c + 2, 2);
    add_bias(bias + H, 1, s.bias[0]);
    add_bias(bias, 1, s.bias[1]);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) node_backward(
    const float *x, const float *y, const float *z, const float *new_x, const float *new_p, const float *new_q,
    const int *ptr, const int *column, const float *update, const float *gru_weights, const float *gru_bias,
    const float *next_projection, const float *grad_new, const float *coefficients, const float *next_p,
    const float *next_q, float *grad_x, float *grad_y, float *grad_projection, float *grad_node, float *grad_gru,
    float *grad_bias, int V, int x_stride, int new_stride) {
  const int r = blockIdx.y, me = r * gridDim.x + blockIdx.x, warp = threadIdx.x / 32;
  const size_t plane = (size_t)r * V * H;
  float *G = (float *)shared_memory, *back = G + 6 * HH, *U = back + 6 * HH, *P = U + 2 * HH, *biases = P + 2 * HH;
  float *tile = biases + 6 * H, *mine = tile + warp * 16 * STRIDE;
  if (LAYER) {
    load_matrices(G, gru_weights + r * 6 * HH, 6);
    load_transposed(back, gru_weights + r * 6 * HH, 6);
    load_transposed(U, update + (size_t)r * COUNT * HH, 2);
    for (int i = threadIdx.x; i < 6 * H; i += 32 * WARPS) biases[i] = gru_bias[r * 6 * H + i];
  }
  if (!LAST) load_transposed(P, next_projection + r * 2 * HH, 2);
  Sums sums = {};
  __syncthreads();
  for (int start = blockIdx.x * TILE; start < V; start += gridDim.x * TILE) {
    const int first = start + warp * 16;
    Rows grad = get(grad_new + plane, first, V);
    if (LAYER) {  // asked for early: memory is far
      put(mine + X, 0, 16, get(x + (size_t)r * x_stride, first, V), STRIDE);
      put(mine + Z, 0, 16, get(z + plane, first, V), STRIDE);
      put(mine + Y, 0, 16, get(y + plane, first, V), STRIDE);
    }
    if (!LAST) {
      Degrees d = degrees_of(ptr, first, V);
      Rows own_p = get(new_p + plane, first, V), own_q = get(new_q + plane, first, V), sent_p, sent_q;
#pragma unroll
      for (int i = 0; i < 2; i++)
        gather_gradient(
            sent_p, sent_q, i, own_p, own_q, coefficients + plane * C, column + d.start[i], d.degree[i]);
      __syncwarp();
      Rows more_p = SWAP ? get(next_p + plane, first, V) : zeros(), more_q = get(next_q + plane, first, V);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        sent_p.v[i] += more_p.v[i];
        sent_q.v[i] += more_q.v[i];
      }
      put(mine + SENT_P, 0, 16, sent_p, STRIDE);
      put(mine + SENT_Q, 0, 16, sent_q, STRIDE);
      put(mine + NEW_X, 0, 16, get(new_x + (size_t)r * new_stride, first, V), STRIDE);
      product(grad, split(sent_p), P);
      product(grad, split(sent_q), P + HH);
      __syncthreads();
      sum_projections(sums, tile);
      __syncthreads();
    }
    if (LAYER) {
      Rows out = get(mine + Z, 0, 16, STRIDE);
      Gates s = gru(split(get(mine + X, 0, 16, STRIDE)), split(out), G, biases);
      Rows d_r, d_u, d_n, d_b, d_z, down = zeros(), d_y = zeros();
#pragma unroll
      for (int i = 0; i < 8; i++) {
        float n = s.n.v[i], u = s.u.v[i], reset = s.r.v[i], g = grad.v[i];
        d_n.v[i] = g * (1 - u) * (1 - n * n);
        d_u.v[i] = g * (out.v[i] - n) * u * (1 - u);
        d_r.v[i] = d_n.v[i] * s.b.v[i] * reset * (1 - reset);
        d_b.v[i] = d_n.v[i] * reset;
        d_z.v[i] = g * u;
      }
      put(mine + D_R, 0, 16, d_r, STRIDE);
      put(mine + D_U, 0, 16, d_u, STRIDE);
      put(mine + D_N, 0, 16, d_n, STRIDE);
      put(mine + D_B, 0, 16, d_b, STRIDE);
      Split half = split(d_r);
      product(down, half, back);
      product(d_z, half, back + 3 * HH);
      half = split(d_u);
      product(down, half, back + HH);
      product(d_z, half, back + 4 * HH);
      product(down, split(d_n), back + 2 * HH);
      product(d_z, split(d_b), back + 5 * HH);
#pragma unroll
      for (int i = 0; i < 8; i++) d_z.v[i] = out.v[i] > 0 ? d_z.v[i] : SLOPE * d_z.v[i];
      put(mine + D_Z, 0, 16, d_z, STRIDE);
      product(d_y, split(d_z), U + MIX * HH);
      put(mine + D_Y, 0, 16, d_y, STRIDE);
      product(down, split(d_y), U + OWN * HH);
      put(grad_x + plane, first, V, down);
      put(grad_y + plane, first, V, d_y);
      __syncthreads();
      sum_gates(sums, tile);
      __syncthreads();
    }
  }
  for (int group = 0; group < WARPS / 4; group++) {
    if (warp / 4 == group)
      add_sums(sums, grad_projection + me * 2 * HH, grad_node + me * 2 * HH, grad_gru + me * 8 * HH,
               grad_bias + me * 6 * H);
    __syncthreads();
  }
}

#else

constexpr int C = PNA_C;
constexpr int STRIDE = (A + S) * H + 8;  // of a tile's rows: the aggregates, then the scaled gradients of y
constexpr int WIDE = S == 3 ? 4 * H : H;  // rows of an aggregator's gradients: S of each four count
constexpr int AGGREGATES = (A + 3) / 4;   // of each warp

// The gradients of one aggregator's matrices by the warp that has it.
INLINE void sum_combined(float (&sums)[AGGREGATES][2 * S][4], const float *tile) {
  tile += threadIdx.x / 128 * 64 * STRIDE;
  int columns[2 * S];
#pragma unroll
  for (int s = 0; s < 2 * S; s++) columns[s] = A * H + 8 * s;
#pragma unroll
  for (int k = 0; k < AGGREGATES; k++) {
    int a = threadIdx.x / 32 % 4 + 4 * k;
    if (a < A) outer<2 * S, false>(sums[k], nullptr, tile, STRIDE, a * H, columns);
  }
}

INLINE void add_combined(const float (&sums)[AGGREGATES][2 * S][4], float *place) {
#pragma unroll
  for (int k = 0; k < AGGREGATES; k++)
#pragma unroll
    for (int s = 0; s < S; s++) {
      int a = threadIdx.x / 32 % 4 + 4 * k;
      if (a < A) add_matrix(place + a * WIDE * H + s * H, 1, WIDE, sums[k] + 2 * s, 2);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) aggregates_backward(
    const float *p, const float *q, const int *ptr, const int *column, const float *delta, const float *update,
    const float *bias, const float *grad_y, float *coefficients, float *grad_p, float *grad_q, float *grad_combined,
    float *grad_bias, int V) {
  const int r = blockIdx.y, me = r * gridDim.x + blockIdx.x, warp = threadIdx.x / 32;
  const size_t plane = (size_t)r * V * H;
  float *U = (float *)shared_memory, *biases = U + S * A * HH, *tile = biases + H, *mine = tile + warp * 16 * STRIDE;
  load_transposed(U, update + ((size_t)r * (COMBINED + S * A) + COMBINED) * HH, S * A);
  if (threadIdx.x < H) biases[threadIdx.x] = bias[r * 3 * H + threadIdx.x];
  float sums[AGGREGATES][2 * S][4] = {}, of_bias[4] = {};
  constexpr int level_at = 0, std_at = MEANS, max_at = std_at + 2 * (STD >= 0), min_at = max_at + 2 * (MAX >= 0);
  p += plane;
  q += plane;
  coefficients += plane * C;
  __syncthreads();
  for (int start = blockIdx.x * TILE; start < V; start += gridDim.x * TILE) {
    const int first = start + warp * 16;
    Degrees d = degrees_of(ptr, first, V);
    put(mine + A * H, 0, 16, get(grad_y + plane, first, V), STRIDE);  // asked for early: memory is far
    Gathered all = gather<true>(p, q, column, d);
    if (STD >= 0) put(coefficients + (std_at + 1) * H, first, V, all.mean, C * H);
    if (MAX >= 0) put(coefficients + (max_at + 1) * H, first, V, all.top, C * H);
    if (MIN >= 0) put(coefficients + (min_at + 1) * H, first, V, all.low, C * H);
    shift(all.mean, all.top, all.low, get(p, first, V), get(q, first, V), bias_rows(biases, 0), d);
    if (MEAN >= 0) put(mine + MEAN * H, 0, 16, all.mean, STRIDE);
    if (STD >= 0) put(mine + STD * H, 0, 16, all.deviation, STRIDE);
    if (MAX >= 0) put(mine + MAX * H, 0, 16, all.top, STRIDE);
    if (MIN >= 0) put(mine + MIN * H, 0, 16, all.low, STRIDE);
    if (SUM >= 0) put(mine + SUM * H, 0, 16, times_degree(all.mean, d), STRIDE);
    Rows grads[A];
    float factors[S][2];
    scaler_factors(factors, d, delta[r]);
#pragma unroll
    for (int a = 0; a < A; a++) grads[a] = zeros();
#pragma unroll
    for (int s = 0; s < S; s++) {
      Rows g = scaled(get(mine + A * H, 0, 16, STRIDE), factors[s]);  // registers are dear
      if (s > 0) put(mine + (A + s) * H, 0, 16, g, STRIDE);
      Split half = split(g);
#pragma unroll
      for (int a = 0; a < A; a++) product(grads[a], half, U + (s * A + a) * HH);
    }
    Rows deviation = STD >= 0 ? get(mine + STD * H, 0, 16, STRIDE) : zeros();
    Rows target = zeros(), others = zeros(), level = zeros(), slope = zeros(), top = zeros(), low = zeros();
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float degree = d.degree[i / 4], once = degree > 0 ? 1.0f : 0.0f, share = once / fmaxf(degree, 1.0f);
      if (MEAN >= 0) {
        target.v[i] += grads[MEAN < 0 ? 0 : MEAN].v[i] * once;
        level.v[i] += grads[MEAN < 0 ? 0 : MEAN].v[i] * share;
      }
      if (SUM >= 0) {
        target.v[i] += grads[SUM < 0 ? 0 : SUM].v[i] * degree;
        level.v[i] += grads[SUM < 0 ? 0 : SUM].v[i] * once;
      }
      if (STD >= 0)
        slope.v[i] = __fdividef(grads[STD < 0 ? 0 : STD].v[i] * share, degree > 0 ? deviation.v[i] : 1.0f);
      if (MAX >= 0) {
        float g = grads[MAX < 0 ? 0 : MAX].v[i] * once;
        others.v[i] += g;
        top.v[i] = __fdividef(g, fmaxf(all.tops.v[i], 1.0f));
      }
      if (MIN >= 0) {
        float g = grads[MIN < 0 ? 0 : MIN].v[i] * once;
        others.v[i] += g;
        low.v[i] = __fdividef(g, fmaxf(all.lows.v[i], 1.0f));
      }
      of_bias[i % 4] += target.v[i] + others.v[i];
      if (!SWAP) target.v[i] += others.v[i];
    }
    if (MEANS) put(coefficients + level_at * H, first, V, level, C * H);
    if (STD >= 0) put(coefficients + std_at * H, first, V, slope, C * H);
    if (MAX >= 0) put(coefficients + max_at * H, first, V, top, C * H);
    if (MIN >= 0) put(coefficients + min_at * H, first, V, low, C * H);
    if (SWAP) put(grad_p + plane, first, V, others);
    put(grad_q + plane, first, V, target);
    __syncthreads();
    sum_combined(sums, tile);
    __syncthreads();
  }
  for (int group = 0; group < WARPS / 4; group++) {
    if (warp / 4 == group) add_combined(sums, grad_combined + (size_t)me * A * WIDE * H);
    __syncthreads();
  }
  put4(tile + (warp * 8 + thread_g()) * H + 4 * thread_t(), of_bias);
  __syncthreads();
  if (threadIdx.x < H) {
    float sum = 0.0f;
    for (int i = 0; i < 8 * WARPS; i++) sum += tile[i * H + threadIdx.x];
    grad_bias[me * H + threadIdx.x] += sum;
  }
}

#endif
