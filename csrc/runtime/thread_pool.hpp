// A persistent pool that runs the phases of a pass one after another, each cut into chunks.
//
// Threads claim chunks by compare-and-swap, and a phase is complete when its chunks are done, not when all
// threads have arrived: a thread that the system has descheduled delays nobody unless it holds a chunk.
// Whoever completes the last chunk of a phase starts the next one, so the caller may be descheduled too.
// Waiting threads spin for a short while and then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace verispec {

class ThreadPool {
 public:
  // Chunks [0, chunks) of work without order between them. `run` must not throw; `worker` is in [0,
  // threads()).
  struct Phase {
    void (*run)(const void* context, uint32_t chunk, int worker);
    const void* context;
    uint32_t chunks;
  };

  // `threads` counts the caller of run(); throws std::invalid_argument unless 1 <= threads <= kMaxThreads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr int kMaxThreads = 1024;

  int threads() const { return threads_; }

  // Runs the phases in order and returns when all are complete. Callers queue up.
  void run(const Phase* phases, size_t count);

 private:
  void work(int worker);
  void take_part(int worker, uint32_t wake_bit);
  bool run_one_chunk(int worker);
  void start(const Phase* phase, int worker);
  void wait(uint32_t wake_bit);
  void sleep_until_change(uint32_t wake_bit);
  void wake(int count, uint32_t wake_bits);

  const int threads_;
  int64_t spin_running_ns_;  // how long to spin for the next phase of a pass
  int64_t spin_idle_ns_;     // how long to spin for the next pass
  const int owner_process_;  // threads do not survive a fork; the child runs alone
  std::mutex callers_;
  std::vector<std::thread> workers_;

  // Written by whoever starts a phase, read by holders of its chunks.
  const Phase* phase_ = nullptr;
  const Phase* end_ = nullptr;

  // Upper half: generation, for readers of a trace; lower half: chunks not yet claimed. A successful
  // compare-and-swap to one less is a claim, whatever happened in between.
  alignas(64) std::atomic<uint64_t> claim_{0};
  std::atomic<bool> finished_{true};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> pending_{0};  // chunks not yet completed
  alignas(64) std::atomic<uint32_t> epoch_{0};    // what sleepers sleep on
  std::atomic<int> sleepers_{0};
};

}  // namespace verispec
