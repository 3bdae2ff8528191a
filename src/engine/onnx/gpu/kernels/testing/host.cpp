/** What `host.h` declares: the fibers of a block, their meetings, and what guards the memory that they use. */
#include "host.h"
#undef __noinline__
#undef __forceinline__
#undef __restrict__
#undef INFINITY
#undef NAN
#include <dlfcn.h>
#include <immintrin.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

uint3 blockIdx;
dim3 blockDim, gridDim;

// Another stack. The registers that a function has to keep are saved on the one that is left.
asm(R"(
.text
.local emulatorSwitch
.type emulatorSwitch, @function
emulatorSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulatorSwitch, .-emulatorSwitch
)");
extern "C" __attribute__((visibility("hidden"))) void emulatorSwitch(void** saved, void* to);

namespace emulator {

Fiber* current;
char* dynamicShared;

namespace {

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t PAGE = 4096, STACK = 256 << 10;
constexpr size_t MAX_SHARED = 227 << 10, SHARED_ALIGNMENT = 128;
constexpr unsigned char UNWRITTEN = 0xff;
constexpr int MAX_COPIES = 256;

struct Copy { void* to; const void* from; int group; };
/** Copies that a thread has begun and not waited for, oldest first. */
struct Copies { int first, end, group; Copy copy[MAX_COPIES]; };

const char* const NAMES[] = {"__shfl_sync",  "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
                             "__ballot_sync", "__any_sync",    "__all_sync",       "__syncwarp",
                             "mma",           "ldmatrix4",     "ldmatrix4Transposed"};

pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
Fiber fibers[MAX_THREADS];
Warp warps[MAX_THREADS / 32];
Copies copies[MAX_THREADS];
char* stacks;
unsigned warpCount, alive, waiting;
int barrierLine;
bool backwards;
const Entry* entry;
void** arguments;
void* home;
bool failed;
char* message;
size_t messageSize;

char* sharedEnd;
size_t dynamicBytes;
/** Makes the thread's static shared memory exist, and shows where. */
thread_local char anchor;
char* staticShared;
size_t staticBytes;

// ---- Faults

sigjmp_buf rescue;
volatile bool guarded;
pthread_t owner;
const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
struct sigaction before[5];
volatile int faultSignal;
volatile uintptr_t faultAddress, faultInstruction;

void onFault(int signal, siginfo_t* info, void* context) {
  if (!guarded || !pthread_equal(pthread_self(), owner)) {
    if (guarded && signal == SIGALRM) {
      pthread_kill(owner, signal);
      return;
    }
    // Another thread's: whoever was here before us knows what to do.
    for (int i = 0; i < 5; i++)
      if (SIGNALS[i] == signal) {
        if (before[i].sa_flags & SA_SIGINFO) before[i].sa_sigaction(signal, info, context);
        else if (before[i].sa_handler == SIG_DFL) sigaction(signal, &before[i], nullptr);
        else if (before[i].sa_handler != SIG_IGN) before[i].sa_handler(signal);
      }
    return;
  }
  guarded = false;
  faultSignal = signal;
  faultAddress = signal == SIGSEGV || signal == SIGBUS ? reinterpret_cast<uintptr_t>(info->si_addr) : 0;
  faultInstruction = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  siglongjmp(rescue, 1);
}

const char* describe(int signal) {
  if (signal == SIGFPE) return "divides an integer by zero";
  if (signal == SIGILL)
    return "uses an index outside of its array, an address that its type is not aligned to, or a shift by too many bits";
  if (signal == SIGALRM) return "does not end";
  if (faultAddress == 0) return "reads or writes through a null pointer, or one that its type is not aligned to";
  const uintptr_t low = reinterpret_cast<uintptr_t>(stacks), shared = reinterpret_cast<uintptr_t>(sharedEnd);
  if (faultAddress >= low && faultAddress < low + MAX_THREADS * (STACK + PAGE)) return "needs more stack than there is";
  if (faultAddress >= shared && faultAddress < shared + PAGE) return "goes beyond the dynamic shared memory";
  return "reads or writes memory that is not its own";
}

size_t put(size_t at, const char* format, va_list list) {
  if (at >= messageSize) return at;
  const int more = vsnprintf(message + at, messageSize - at, format, list);
  return at + (more < 0 ? 0 : more);
}
__attribute__((format(printf, 2, 3))) size_t add(size_t at, const char* format, ...) {
  va_list list;
  va_start(list, format);
  at = put(at, format, list);
  va_end(list);
  return at;
}

size_t whose(const Fiber* fiber) {
  size_t at = add(0, "kernel %s, block (%u, %u, %u)", entry->name, blockIdx.x, blockIdx.y, blockIdx.z);
  if (fiber != nullptr) at = add(at, ", thread (%u, %u, %u)", fiber->index.x, fiber->index.y, fiber->index.z);
  return add(at, ": ");
}

/** Ends the launch: what the fibers had in hand is left where it lies. */
[[noreturn]] void leave() {
  failed = true;
  void* lost;
  emulatorSwitch(&lost, home);
  __builtin_unreachable();
}
__attribute__((format(printf, 1, 2))) [[noreturn]] void fail(const char* format, ...) {
  const size_t at = whose(current);
  va_list list;
  va_start(list, format);
  put(at, format, list);
  va_end(list);
  leave();
}

// ---- Fibers

/** No lane of the warp can go on, and some wait for others of it: says for whom, and where those are. */
[[noreturn]] void stuck(const Warp& warp) {
  const Meeting& meeting = warp.meeting[0];
  const Fiber* lanes = &fibers[32 * (&warp - warps)];
  size_t at = whose(nullptr);
  at = add(at, "lanes 0x%x of warp %d wait at %s in line %d for", meeting.arrived, static_cast<int>(&warp - warps),
           NAMES[meeting.kind], meeting.line);
  int told = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    const unsigned bit = 1u << lane;
    if (!(meeting.mask & ~meeting.arrived & bit)) continue;
    if (told++ == 4) {
      add(at, " and others");
      break;
    }
    at = add(at, "%s lane %u, which ", told > 1 ? "," : "", lane);
    if (warp.returned & bit) at = add(at, "has returned");
    else if (warp.atBarrier & bit) at = add(at, "waits at __syncthreads in line %d", lanes[lane].line);
    else {
      const char* name = "another collective";
      for (int m = 1; m < warp.meetings; m++)
        if (warp.meeting[m].arrived & bit) name = NAMES[warp.meeting[m].kind];
      at = add(at, "waits at %s in line %d", name, lanes[lane].line);
    }
  }
  leave();
}

Warp* nextWarp(const Warp* from) {
  const unsigned at = from - warps;
  for (unsigned i = 1; i <= warpCount; i++) {
    Warp* warp = &warps[(at + (backwards ? warpCount - i : i)) % warpCount];
    if (warp->ready) return warp;
  }
  fail("no thread can go on");
}

/** Another thread in place of the current one, which is not ready or has returned. */
void yield() {
  Fiber* from = current;
  Warp* warp = from->warp;
  if (!warp->ready) {
    if (warp->meetings) stuck(*warp);
    warp = nextWarp(warp);
  }
  const unsigned ready = warp->ready;
  unsigned lane;
  if (backwards) {
    const unsigned below = ready & ((1u << from->lane) - 1);
    lane = 31 - __builtin_clz(below ? below : ready);
  } else {
    const unsigned above = ready & (~1u << from->lane);
    lane = __builtin_ctz(above ? above : ready);
  }
  current = &fibers[32 * (warp - warps) + lane];
  emulatorSwitch(&from->stack, current->stack);
}

void release() {
  for (unsigned i = 0; i < warpCount; i++) {
    warps[i].ready |= warps[i].atBarrier;
    warps[i].atBarrier = 0;
  }
  waiting = 0;
}

void runThread() {
  entry->call(arguments);
  Warp& warp = *current->warp;
  const unsigned bit = 1u << current->lane;
  warp.returned |= bit;
  warp.ready &= ~bit;
  if (--alive == 0) emulatorSwitch(&current->stack, home);
  if (waiting == alive) release();
  yield();
}

bool inShared(const void* at) {
  const char* from = static_cast<const char*>(at);
  return (from >= dynamicShared && from + 16 <= dynamicShared + dynamicBytes) ||
         (from >= staticShared && from + 16 <= staticShared + staticBytes);
}

int findStatic(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    char* at = static_cast<char*>(info->dlpi_tls_data);
    if (header.p_type != PT_TLS || at == nullptr) continue;
    if (&anchor < at || &anchor >= at + header.p_memsz) continue;
    staticShared = at;
    staticBytes = header.p_memsz;
    return 1;
  }
  return 0;
}

/** Pages once for all launches, each stack with one before it that may not be touched. */
bool reserve() {
  if (stacks != nullptr) return true;
  const size_t sharedPages = (MAX_SHARED / PAGE + 2) * PAGE;
  void* at = mmap(nullptr, MAX_THREADS * (STACK + PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* shared = mmap(nullptr, sharedPages + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || shared == MAP_FAILED) return false;
  for (unsigned i = 0; i < MAX_THREADS; i++)
    if (mprotect(static_cast<char*>(at) + i * (STACK + PAGE) + PAGE, STACK, PROT_READ | PROT_WRITE)) return false;
  if (mprotect(shared, sharedPages, PROT_READ | PROT_WRITE)) return false;
  sharedEnd = static_cast<char*>(shared) + sharedPages;
  stacks = static_cast<char*>(at);
  return true;
}

void prepareThread(unsigned i) {
  Fiber& fiber = fibers[i];
  fiber.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  fiber.lane = i % 32;
  fiber.warp = &warps[i / 32];
  copies[i].first = copies[i].end = copies[i].group = 0;
  // Stacks that began at the same place of a page would drive each other out of the cache.
  char* top = stacks + (i + 1) * (STACK + PAGE) - i * 5 % 64 * 64;
  void** frame = reinterpret_cast<void**>(top) - 8;
  frame[6] = reinterpret_cast<void*>(&runThread);
  frame[7] = nullptr;
  fiber.stack = frame;
}

bool unwritten(const char* from, const char* to) {
  return from == to || (static_cast<unsigned char>(*from) == UNWRITTEN && !memcmp(from, from + 1, to - from - 1));
}

/** False where the block failed: the message says how. */
bool runBlock() {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  warpCount = (threads + 31) / 32;
  alive = threads;
  waiting = 0;
  for (unsigned i = 0; i < warpCount; i++) {
    const unsigned lanes = threads - 32 * i;
    Warp& warp = warps[i];
    warp.existing = warp.ready = lanes < 32 ? (1u << lanes) - 1 : ~0u;
    warp.atBarrier = warp.returned = 0;
    warp.meetings = 0;
  }
  for (unsigned i = 0; i < threads; i++) prepareThread(i);
  // Before it too, as far as a page, to see what is written there.
  memset(dynamicShared - PAGE, UNWRITTEN, sharedEnd - dynamicShared + PAGE);
  memset(staticShared, UNWRITTEN, staticBytes);
  current = &fibers[backwards ? threads - 1 : 0];
  emulatorSwitch(&home, current->stack);
  current = nullptr;
  if (failed) return false;
  if (unwritten(dynamicShared - PAGE, dynamicShared) && unwritten(dynamicShared + dynamicBytes, sharedEnd)) return true;
  add(whose(nullptr), "writes outside of the dynamic shared memory of %zu bytes", dynamicBytes);
  return false;
}

bool runGrid() {
  const uint64_t blocks = uint64_t(gridDim.x) * gridDim.y * gridDim.z;
  for (uint64_t i = 0; i < blocks; i++) {
    const uint64_t at = backwards ? blocks - 1 - i : i;
    blockIdx = {unsigned(at % gridDim.x), unsigned(at / gridDim.x % gridDim.y), unsigned(at / gridDim.x / gridDim.y)};
    if (!runBlock()) return false;
  }
  return true;
}

void limitTime(unsigned seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

/** The grid with faults caught. Apart from its caller, whose variables a jump would spoil. */
__attribute__((noinline)) bool runGuarded(unsigned seconds) {
  static char handlerStack[64 << 10];
  stack_t mine = {}, theirs;
  mine.ss_sp = handlerStack;
  mine.ss_size = sizeof handlerStack;
  sigaltstack(&mine, &theirs);
  struct sigaction action = {};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  owner = pthread_self();
  for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &action, &before[i]);
  static bool done;
  done = false;
  faultSignal = 0;
  if (sigsetjmp(rescue, 1) == 0) {
    guarded = true;
    limitTime(seconds);
    done = runGrid();
  } else {
    add(whose(current), "%s", describe(faultSignal));
  }
  limitTime(0);
  guarded = false;
  for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &before[i], nullptr);
  sigaltstack(&theirs, nullptr);
  return done;
}

}  // namespace

unsigned arrive(int kind, unsigned mask, int line) {
  Fiber* self = current;
  Warp& warp = *self->warp;
  const unsigned bit = 1u << self->lane;
  mask &= warp.existing;
  if (!(mask & bit)) fail("%s in line %d has a mask without the lane that calls it", NAMES[kind], line);
  Meeting* meeting = warp.meeting;
  Meeting* const end = meeting + warp.meetings;
  while (meeting != end && meeting->mask != mask) meeting++;
  if (meeting == end) {
    warp.meetings++;
    *meeting = {mask, 0, kind, line};
  } else if (meeting->kind != kind || meeting->line != line) {
    fail("comes to %s in line %d, but lanes 0x%x of its warp wait for it at %s in line %d", NAMES[kind], line,
         meeting->arrived, NAMES[meeting->kind], meeting->line);
  }
  meeting->arrived |= bit;
  if (meeting->arrived == mask) {
    *meeting = warp.meeting[--warp.meetings];
    warp.ready |= mask;
    return mask;
  }
  self->line = line;
  warp.ready &= ~bit;
  yield();
  return 0;
}

void exchange(Warp& warp, unsigned lanes) {
  for (unsigned left = lanes; left; left &= left - 1) {
    const unsigned lane = __builtin_ctz(left), source = warp.source[lane];
    if (!(lanes >> source & 1)) fail("a shuffle gives lane %u the value of lane %u, which takes no part", lane, source);
    warp.result[lane] = warp.value[source];
  }
}

void vote(Warp& warp, unsigned lanes, int kind) {
  unsigned votes = 0;
  for (unsigned left = lanes; left; left &= left - 1) {
    const unsigned lane = __builtin_ctz(left);
    votes |= static_cast<unsigned>(warp.value[lane]) << lane;
  }
  const unsigned result = kind == ANY ? votes != 0 : kind == ALL ? votes == lanes : votes;
  for (unsigned left = lanes; left; left &= left - 1) warp.result[__builtin_ctz(left)] = result;
}

typedef float Row __attribute__((vector_size(32)));

/** Fragments as the PTX ISA lays them out: a lane's group is lane / 4, its place in it lane % 4. */
void multiply(Warp& warp, unsigned lanes) {
  if (lanes != ~0u) fail("mma needs a whole warp");
  float a[16][16];
  alignas(32) float b[16][8];
  alignas(32) float c[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const int group = lane / 4, at = lane % 4 * 2;
    float f[8];
    _mm256_storeu_ps(f, _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(warp.operand[1][lane]))));
    for (int i = 0; i < 2; i++) {
      a[group][at + i] = f[i];
      a[group + 8][at + i] = f[2 + i];
      a[group][at + 8 + i] = f[4 + i];
      a[group + 8][at + 8 + i] = f[6 + i];
    }
    _mm_storeu_ps(f, _mm_cvtph_ps(_mm_loadl_epi64(static_cast<const __m128i*>(warp.operand[2][lane]))));
    const float* sums = static_cast<const float*>(warp.operand[0][lane]);
    for (int i = 0; i < 2; i++) {
      b[at + i][group] = f[i];
      b[at + 8 + i][group] = f[2 + i];
      c[group][at + i] = sums[i];
      c[group + 8][at + i] = sums[2 + i];
    }
  }
  for (int row = 0; row < 16; row++) {
    Row sum = *reinterpret_cast<Row*>(c[row]);
    for (int k = 0; k < 16; k++) sum += a[row][k] * *reinterpret_cast<Row*>(b[k]);
    *reinterpret_cast<Row*>(c[row]) = sum;
  }
  for (int lane = 0; lane < 32; lane++) {
    const int group = lane / 4, at = lane % 4 * 2;
    float* sums = static_cast<float*>(const_cast<void*>(warp.operand[0][lane]));
    for (int i = 0; i < 2; i++) {
      sums[i] = c[group][at + i];
      sums[2 + i] = c[group + 8][at + i];
    }
  }
}

void loadMatrices(Warp& warp, unsigned lanes, bool transposed) {
  if (lanes != ~0u) fail("ldmatrix4 needs a whole warp");
  uint16_t rows[4][8][8];
  for (int lane = 0; lane < 32; lane++) {
    const void* from = warp.operand[1][lane];
    if (reinterpret_cast<uintptr_t>(from) % 16 || !inShared(from))
      fail("ldmatrix4 is given an address by lane %d that is no row of 16 bytes in shared memory", lane);
    memcpy(rows[lane / 8][lane % 8], from, 16);
  }
  for (int lane = 0; lane < 32; lane++) {
    unsigned* to = static_cast<unsigned*>(const_cast<void*>(warp.operand[0][lane]));
    const int group = lane / 4, at = lane % 4 * 2;
    for (int m = 0; m < 4; m++) {
      const unsigned low = transposed ? rows[m][at][group] : rows[m][group][at];
      const unsigned high = transposed ? rows[m][at + 1][group] : rows[m][group][at + 1];
      to[m] = low | high << 16;
    }
  }
}

void barrier(int line) {
  Fiber* self = current;
  if (waiting == 0) barrierLine = line;
  else if (barrierLine != line)
    fail("comes to __syncthreads in line %d, but %u threads of its block wait for it in line %d", line, waiting, barrierLine);
  if (++waiting == alive) {
    release();
    return;
  }
  const unsigned bit = 1u << self->lane;
  self->line = line;
  self->warp->ready &= ~bit;
  self->warp->atBarrier |= bit;
  yield();
}

void copyLater(void* to, const void* from) {
  if (reinterpret_cast<uintptr_t>(to) % 16 || !inShared(to))
    fail("copyAsync16 is given a place that is not 16 bytes of shared memory");
  if (reinterpret_cast<uintptr_t>(from) % 16) fail("copyAsync16 is given a source that is not aligned to 16 bytes");
  Copies& mine = copies[current - fibers];
  if (mine.end - mine.first == MAX_COPIES) fail("has begun more than %d copies and waited for none", MAX_COPIES);
  memset(to, UNWRITTEN, 16);
  mine.copy[mine.end++ % MAX_COPIES] = {to, from, mine.group};
}

void commitCopies() { copies[current - fibers].group++; }

void finishCopies(int groupsLeft) {
  Copies& mine = copies[current - fibers];
  for (; mine.first < mine.end; mine.first++) {
    const Copy& copy = mine.copy[mine.first % MAX_COPIES];
    if (copy.group >= mine.group - groupsLeft) break;
    memcpy(copy.to, copy.from, 16);
  }
}

void trap() { fail("calls __trap"); }

}  // namespace emulator

using namespace emulator;

/** A kernel's parameters, a letter each; null where there is no such kernel. */
EXPORTED const char* emulatorSignature(const char* name) {
  for (const Entry* found = entries; found->name; found++)
    if (strcmp(found->name, name) == 0) return found->signature;
  return nullptr;
}

/**
 * `shape`: grid and block (x, y, z), bytes of dynamic shared memory, backwards, seconds. `cells`: 8 bytes an argument.
 * False where the launch failed, with a text, and where it was a fault its address and the instruction's place.
 */
EXPORTED bool emulatorLaunch(const char* name, const unsigned* shape, char* cells, char* text, uint64_t textSize,
                             uint64_t* fault) {
  void* args[256];
  pthread_mutex_lock(&running);
  message = text;
  messageSize = textSize;
  for (entry = entries; strcmp(entry->name, name);) entry++;
  for (size_t i = 0; i < strlen(entry->signature) && i < 256; i++) args[i] = cells + 8 * i;
  arguments = args;
  gridDim = {shape[0], shape[1], shape[2]};
  blockDim = {shape[3], shape[4], shape[5]};
  dynamicBytes = shape[6];
  backwards = shape[7] != 0;
  failed = false;
  current = nullptr;
  anchor = 1;
  staticShared = nullptr;
  faultAddress = faultInstruction = 0;
  bool done = false;
  if (!reserve() || !dl_iterate_phdr(findStatic, nullptr)) {
    add(0, "there is no memory for the threads of a block");
  } else {
    dynamicShared = sharedEnd - (dynamicBytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    done = runGuarded(shape[8]);
  }
  Dl_info here, there;
  fault[0] = faultAddress;
  fault[1] = 0;
  if (faultInstruction && dladdr(reinterpret_cast<void*>(&emulatorLaunch), &here) &&
      dladdr(reinterpret_cast<void*>(faultInstruction), &there) && here.dli_fbase == there.dli_fbase)
    fault[1] = faultInstruction - reinterpret_cast<uintptr_t>(here.dli_fbase);
  pthread_mutex_unlock(&running);
  return done;
}

static size_t pagesOf(uint64_t bytes) { return (bytes + 15 + PAGE) / PAGE * PAGE; }

/** Memory that ends, but for what alignment to 16 bytes asks, at a page that may not be touched; 0 where there is none. */
EXPORTED uint64_t emulatorAllocate(uint64_t bytes) {
  const size_t size = pagesOf(bytes);
  void* all = mmap(nullptr, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return 0;
  char* from = static_cast<char*>(all) + PAGE;
  if (mprotect(from, size, PROT_READ | PROT_WRITE)) return 0;
  memset(from, UNWRITTEN, size);
  return reinterpret_cast<uintptr_t>(from + size - (bytes + 15) / 16 * 16);
}

static char* startOf(uint64_t pointer, uint64_t bytes) {
  return reinterpret_cast<char*>(pointer) + (bytes + 15) / 16 * 16 - pagesOf(bytes);
}

/** Whether nothing was written around it. */
EXPORTED bool emulatorIntact(uint64_t pointer, uint64_t bytes) {
  char* at = reinterpret_cast<char*>(pointer);
  return unwritten(startOf(pointer, bytes), at) && unwritten(at + bytes, at + (bytes + 15) / 16 * 16);
}

EXPORTED void emulatorFree(uint64_t pointer, uint64_t bytes) {
  munmap(startOf(pointer, bytes) - PAGE, pagesOf(bytes) + 2 * PAGE);
}

EXPORTED void emulatorWrite(uint64_t to, const void* from, uint64_t bytes) {
  memcpy(reinterpret_cast<void*>(to), from, bytes);
}

EXPORTED void emulatorRead(void* to, uint64_t from, uint64_t bytes) {
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
}
