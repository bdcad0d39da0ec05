// The one place where Asio's own functions for TLS are compiled (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/ssl/impl/src.hpp>
