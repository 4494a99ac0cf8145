// The thread pool under ThreadSanitizer: phases of many sizes, in which every chunk changes a place that
// another thread changed in the phase before. `make sanitize` builds and runs it; it exits with 1 when work
// was lost.
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "../csrc/runtime/thread_pool.hpp"

namespace {

constexpr int kPlaces = 64;

struct Step {
  std::vector<int>* places;
  uint32_t shift;
};

void change(const void* context, uint32_t chunk, int) {
  const Step& step = *static_cast<const Step*>(context);
  (*step.places)[(chunk * 13 + step.shift) % kPlaces] += 1;
}

// Runs a pass of phases with 0 to kPlaces chunks; whether every chunk ran once.
bool run_pass(verispec::ThreadPool& pool) {
  std::vector<int> places(kPlaces);
  std::vector<Step> steps;
  for (uint32_t i = 0; i < 24; ++i) steps.push_back({&places, i});
  std::vector<verispec::ThreadPool::Phase> phases;
  uint32_t expected = 0;
  for (const Step& step : steps) {
    const uint32_t chunks = step.shift % 4 < 2 ? step.shift % 4 : step.shift * 7 % kPlaces;
    phases.push_back({change, &step, chunks});
    expected += chunks;
  }
  pool.run(phases.data(), phases.size());
  uint32_t found = 0;
  for (int count : places) found += count;
  return found == expected;
}

}  // namespace

int main() {
  for (int threads : {1, 2, 3, 8}) {
    verispec::ThreadPool pool(threads);
    for (int pass = 0; pass < 200; ++pass) {
      if (pass % 50 == 0) usleep(1500);  // long enough for the threads to fall asleep
      if (run_pass(pool)) continue;
      std::printf("%d threads: a chunk was lost or ran twice\n", threads);
      return 1;
    }
  }
}
