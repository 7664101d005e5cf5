// The keys of expert layers: of a model, and of how a scenario runs them.
#include <algorithm>
#include <optional>
#include <utility>

#include "sim/config/format_parts.hpp"
#include "sim/config/format_routing.hpp"
#include "sim/config/formats.hpp"
#include "sim/model/expert_defaults.hpp"

namespace syncline {
namespace {

constexpr Limits Width{.low = 1, .high = 16777216};
constexpr Limits MostExperts{.low = 1, .high = 65536};
constexpr Limits MostUnits{.low = 1, .high = 65536};
constexpr Limits AnyStep{.low = 0, .high = 1e12};  // of a training run
constexpr Limits Factor{.low = 0, .high = 1e6, .above_low = true};

/// Printed as what holds where it is not given.
template <class Value, class... Options>
Field with_default(std::string_view key, std::optional<Value>& value, Value otherwise, Options... more) {
  Codec both = codec(value, more...);
  both.write = [&value, otherwise, more...] {
    std::optional<Value> holds = value.value_or(otherwise);
    return codec(holds, more...).write();
  };
  return {key, false, std::move(both)};
}

}  // namespace

Fields fields_of(ExpertSpec& experts) {
  constexpr Limits AnyWidth{.low = 0, .high = Width.high};
  constexpr Limits AnyLayers{.low = 0, .high = Layers.high};
  return {required("count", experts.count, MostExperts),
          required("top-k", experts.top_k, MostExperts),
          required("ffn", experts.ffn, Width),
          optional("shared-ffn", experts.shared_ffn, AnyWidth),
          optional("shared-gate", experts.shared_gate),
          optional("dense-layers", experts.dense_layers, AnyLayers),
          optional("every", experts.every, Layers),
          optional("groups", experts.groups, MostExperts),
          optional("top-groups", experts.top_groups, MostExperts)};
}

Fields expert_fields(TrainingJob& job) {
  ExpertOptions& options = job.shape.experts;
  const Precision computed = job.shape.compute;
  return {optional("capacity", options.capacity, Factor),
          printed_if(options.capacity.has_value(), optional("pad", options.pad)),
          {"routing", false, routing_codec(job.routing.routing)},
          optional("step", job.routing.step, AnyStep),
          optional("node-limited", job.routing.node_limited),
          optional("dispatch", options.dispatch,
                   Names<Dispatch>{{"all-to-all", Dispatch::AllToAll},
                                   {"two-hop", Dispatch::TwoHop},
                                   {"all-gather", Dispatch::AllGather}}),
          printed_if(!job.routing.library.empty(), optional("library", job.routing.library)),
          with_default("dispatch-precision", options.dispatched, computed, precisions()),
          with_default("combine-precision", options.combined, computed, precisions()),
          optional("overlap", options.overlap,
                   Names<ExpertOverlap>{{"none", ExpertOverlap::None},
                                        {"shared-experts", ExpertOverlap::SharedExperts},
                                        {"batch", ExpertOverlap::Batch}}),
          with_default("host-waits", options.host_waits, host_waits(job.model, job.shape)),
          with_default("fused-router", options.fused_router, fused_router(job.shape)),
          printed_if(options.units > 0, optional("units", options.units, MostUnits))};
}

}  // namespace syncline
