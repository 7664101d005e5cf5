// `collectives:` of a topology file, and libraries/NAME.yaml.
#include <filesystem>

#include "sim/config/catalogue.hpp"
#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/config/reader.hpp"
#include "sim/topology/collective_figures.hpp"

namespace syncline {

namespace {

constexpr Limits OwnBlock{.low = 0, .high = 4};
constexpr Limits Wire{.low = 1, .high = 4};

}  // namespace

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(ProtocolFigures& figures);

Fields fields_of(ProtocolFigures& figures) {
  return {required("protocol", figures.protocol),
          required("call", figures.call),
          required("hop-inside", figures.hop_inside),
          required("hop-between", figures.hop_between),
          required("share-inside", figures.share_inside, AnyShare),
          required("share-between", figures.share_between, AnyShare),
          optional("own-block", figures.own_block, OwnBlock),
          optional("wire", figures.wire, Wire)};
}

Fields fields_of(CollectiveFigures& figures) {
  return {version_field(false),
          optional("name", figures.name),
          optional("source", figures.source),
          optional("ring", figures.ring),
          optional("ring-all-reduce", figures.ring_all_reduce),
          optional("ring-reduce-scatter", figures.ring_reduce_scatter),
          optional("ring-broadcast", figures.ring_broadcast),
          optional("ring-reduce", figures.ring_reduce),
          optional("tree", figures.tree),
          optional("in-network", figures.in_network),
          optional("direct", figures.direct),
          optional("send", figures.send),
          optional("node-limit", figures.node_limit)};
}

Codec codec(CollectiveFigures& figures) {
  return block_or_name_codec(figures, Libraries, "the name of a library");
}

}  // namespace syncline
