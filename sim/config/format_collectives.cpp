// `collectives:` of a topology file.
#include "sim/config/formats.hpp"
#include "sim/config/reader.hpp"
#include "sim/topology/collective_figures.hpp"

namespace syncline {

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(ProtocolFigures& figures);

Fields fields_of(ProtocolFigures& figures) {
  return {required("protocol", figures.protocol),
          required("call", figures.call),
          required("hop-inside", figures.hop_inside),
          required("hop-between", figures.hop_between),
          required("share-inside", figures.share_inside, AnyShare),
          required("share-between", figures.share_between, AnyShare)};
}

Fields fields_of(CollectiveFigures& figures) {
  return {optional("ring", figures.ring),
          optional("tree", figures.tree),
          optional("in-network", figures.in_network),
          optional("direct", figures.direct),
          optional("send", figures.send),
          optional("node-limit", figures.node_limit)};
}

}  // namespace syncline
