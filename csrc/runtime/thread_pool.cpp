#include "thread_pool.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace verispec {
namespace {

constexpr uint32_t kWorkerBit = 1;
constexpr uint32_t kCallerBit = 2;
constexpr int kPausesPerClock = 32;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint32_t bit) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr,
          nullptr, bit);
}

void futex_wake(std::atomic<uint32_t>& word, int count, uint32_t bits) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_BITSET_PRIVATE, count, nullptr, nullptr,
          bits);
}

int checked_threads(int threads) {
  if (threads < 1 || threads > ThreadPool::kMaxThreads) {
    throw std::invalid_argument("thread pool: threads: expected 1 to " +
                                std::to_string(ThreadPool::kMaxThreads) + ", found " +
                                std::to_string(threads));
  }
  return threads;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(checked_threads(threads)), owner_process_(getpid()) {
  // With more threads than cores a spinning thread holds the core that the work needs.
  const bool crowded = threads > available_cores();
  spin_running_ns_ = crowded ? 2'000 : 50'000;
  spin_idle_ns_ = crowded ? 2'000 : 200'000;
  for (int worker = 1; worker < threads_; ++worker) workers_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  if (owner_process_ != getpid()) {
    for (std::thread& worker : workers_) worker.detach();
    return;
  }
  stop_.store(true);
  epoch_.fetch_add(1);
  futex_wake(epoch_, threads_, kWorkerBit);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Phase* phases, size_t count) {
  std::lock_guard<std::mutex> lock(callers_);
  end_ = phases + count;
  finished_.store(false, std::memory_order_relaxed);
  start(phases, 0);
  take_part(0, kCallerBit);
}

// The caller's share of a pass.
void ThreadPool::take_part(int worker, uint32_t wake_bit) {
  while (!finished_.load(std::memory_order_acquire)) {
    if (!run_one_chunk(worker)) wait(wake_bit);
  }
}

void ThreadPool::work(int worker) {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (!run_one_chunk(worker)) wait(kWorkerBit);
  }
}

bool ThreadPool::run_one_chunk(int worker) {
  uint64_t seen = claim_.load(std::memory_order_acquire);
  do {
    if (static_cast<uint32_t>(seen) == 0) return false;
  } while (
      !claim_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  // Until this chunk is done the phase cannot end, so phase_ is the one the chunk belongs to.
  const Phase& phase = *phase_;
  phase.run(phase.context, phase.chunks - static_cast<uint32_t>(seen), worker);
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) start(phase_ + 1, worker);
  return true;
}

// Called by the only thread that may write phase_: the one that began the pass or completed the phase before.
void ThreadPool::start(const Phase* phase, int worker) {
  while (phase != end_ && phase->chunks <= 1) {
    if (phase->chunks == 1) phase->run(phase->context, 0, worker);  // nobody else could help
    ++phase;
  }
  if (phase == end_) {
    finished_.store(true);  // sequentially consistent, as is the claim below: see sleep_until_change
    if (sleepers_.load() > 0) wake(1, kCallerBit);
    return;
  }
  // Once the claim is published others may finish the pass, and the caller may free its phases.
  const uint32_t chunks = phase->chunks;
  phase_ = phase;
  pending_.store(chunks, std::memory_order_relaxed);
  const uint64_t generation = (claim_.load(std::memory_order_relaxed) >> 32) + 1;
  claim_.store(generation << 32 | chunks);
  const int sleepers = sleepers_.load();
  if (sleepers > 0) {
    wake(static_cast<int>(std::min<uint32_t>(sleepers, chunks - 1)), kWorkerBit | kCallerBit);
  }
}

void ThreadPool::wait(uint32_t wake_bit) {
  const int64_t begin = now_ns();
  for (;;) {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (static_cast<uint32_t>(claim_.load(std::memory_order_relaxed)) != 0) return;
      if (wake_bit == kCallerBit && finished_.load(std::memory_order_relaxed)) return;
      pause();
    }
    const int64_t limit = finished_.load(std::memory_order_relaxed) ? spin_idle_ns_ : spin_running_ns_;
    if (now_ns() - begin > limit) return sleep_until_change(wake_bit);
  }
}

// Registering as a sleeper comes before the last look at the claim, and a starter writes the claim before it
// looks for sleepers, both in the one sequentially consistent order: one of the two sees the other.
void ThreadPool::sleep_until_change(uint32_t wake_bit) {
  sleepers_.fetch_add(1);
  const uint32_t epoch = epoch_.load();
  const bool nothing_to_do = static_cast<uint32_t>(claim_.load()) == 0 && !stop_.load() &&
                             !(wake_bit == kCallerBit && finished_.load());
  if (nothing_to_do) futex_wait(epoch_, epoch, wake_bit);
  sleepers_.fetch_sub(1);
}

void ThreadPool::wake(int count, uint32_t wake_bits) {
  epoch_.fetch_add(1);
  futex_wake(epoch_, count, wake_bits);
}

}  // namespace verispec
