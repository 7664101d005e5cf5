// Which GPU a rank has, and how much of it.
#pragma once

#include <string>

namespace syncline::cuda {

/// How ranks talk.
enum class Talk : int {
  Nccl,    // a rank a GPU, or a single rank
  Copies,  // several ranks on one GPU: NCCL refuses that
};

/// @param gpus     that this process sees
/// @param ranks    of this process
/// @param virtual_ranks  whether several ranks on one GPU are welcome; where GPUs suffice each rank has its
///                       own anyway
/// @throws EnvironmentError  when GPUs are too few
[[nodiscard]] Talk talk_of(int gpus, int ranks, bool virtual_ranks);

/// Multiprocessors of each of the ranks on one GPU, all alike: as many as can be, the rest lies idle.
/// @param minimum, multiple  of a partition, as the driver tells: 8 and 8 on compute capability 9.0
/// @throws EnvironmentError  when there are too few
[[nodiscard]] unsigned multiprocessors_each(unsigned multiprocessors, unsigned ranks, unsigned minimum,
                                            unsigned multiple);

/// A stream of each rank may wait for another rank in the midst of a hardware queue; two of them in one queue
/// can hold each other up for ever.
/// @param queues  that the driver opens: CUDA_DEVICE_MAX_CONNECTIONS, 32 at most
/// @throws EnvironmentError  when streams are too many
void require_queues(int streams, int queues);

}  // namespace syncline::cuda
