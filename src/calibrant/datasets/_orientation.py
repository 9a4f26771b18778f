"""Orientation of the 100 × 100 singular vectors in the published run of the 100-class simulation.

The sign of a singular vector is a matter of the LAPACK build, and 4 of these 10,000 differ between builds of today; one
bit each (largest entry positive or not) makes the simulation the same on every machine. Base64 of packed bits.
"""

SIGNS = (
    "t2Bn6n7fsvB1NJayOv6WJrWMou/rsWhxQaLhV3f6MejfEp4ElfIN4Pg2/J9PLD9mioKuWSgsDutBrbrjC/YOVMM1L7nPp6DHJPLBJt717oi/Kc"
    "fpEmbWPyiLcKwhueyTi8fKm50ZRntp972E3FRDvdPz8FJlCDU4L1qHoQe0wGPmq8Zr7yF9C46YoJNCDQBGNziStmMVOikEW8ZKC2P7wg6S6gP6"
    "nCQYzUXzGyPgJlW2S+a0SBtYEVW5fAvHWWjtNe7lI/eK8J+HbRztU4Pl16dPS9MzlAg6rIQctheac9NmjDFzqVrvRAvUn3ZuTSN0ma29FmFeZg"
    "EMdwtJOqL3+9wxm4qTrvh/02L0emi0hTrxJc5b1FJOfnWvCqqizYdZoxn2Yjo8/xb+YiRXVbncr0T02VFniHUQxmuUDE3h17SCas4reBlJ+QuB"
    "KHQxTLWATh+iKqCtMA3WgrXMGmdMzGjwx/ACJBabrpwdt1xWExrgO3p2tJlpVojQW06ux74bBjvtNqh1xkGfe38VV7ct0jwTjL0dMHyTjgu9pB"
    "W7cVkAOCQYFqNXdReD8KfaFYbajhfbe1q9zOuXDg6gbduhIPsAyfEc+MRbSTovEUwxArZBMDHH8R+AkPDpvQ8EQW0ME+bEYpv251Jn6Q6mjoAG"
    "5v+LY4BtE+uBd3qfsUgGAMUH2q2P/qTKsj7dQRhPxUK2BoCRl6FALpEv8BnveLzfAVdzWSKgCxfTGd03zhI8EPYn7HGzK9/bDD5+Dtden7QNXP"
    "QPU132FvrRqK3BV5RT6HcxidrBUEbLGaOla2uksCxJBknsgtEgGMNu+VLr1LHwF56Mrpg23EJ0HNV8iKlwB5uWyBCAbavo4orUitvERMpbOgRk"
    "6jNGkcriSTnW3Vi2O5a/XO25yuj+mb5Dds4vB8JZ6v/cONueQo06yx/hMbPF6Uu3gok1LiwkWRiJfLpA5x2o+OEBwDYzfgLlheowCypYgE4mdN"
    "tIRa1p/ImSAXAwsyd31+ylsrGp2Az424ne/BjPI8uWuU2RyX9JtfN32SM/oXi4FXLEmZ4DBRBP6sZbtnhw//NemxyJMta7kgqYka9wSmXPhBVa"
    "tc2+xLldA1nfsnvlAOX+qtX9GgQUH/8aEGHrSuEkasgB7vzpuE+EbohswJNpHYir/JsZNxFzTgdlfLWWPpVd4VL+FeoQ1qc3KJTYyxKruHYDMK"
    "Tw6yKWN9sLSbb98fN7epHRDqEeGZXtwA8fPBer2kK/btsvO4+M7yOWlupfeGBdcjJH6f12fJFAMFF9WTpQJToRHgrkkGeLdQCMF7gE5CTSNrXS"
    "T7ndOiACgWA8e2ZR16YnQiGbn+otiIQ7priI49KlaUvMiL3qS4bgSI3fKmrL4fwNWYocpsucGIBGNnGc/1yrnnezprJAt4MZPkfi+Kvcpaswhi"
    "eeNhfL0yLwQfKzApVT6/JIBioYXC4sOBZCOTDWnFiqrmy/VR5jKwcOxW6Xq9qLmMX4Z4LmfxOpj+VHbx/a+S/bpgYqq8qF7w7UsfzQoPKT+zfB"
    "95YIzD5hI9hMnMnxwU3Bd7pU4t1ofqGTlmqjGNPKIkyvG70WKEygNcM5j+jmNhrg0TNpN09T5cBWpTcbVOAX6zmCBzNiT2psSxmuBhb3m/Egod"
    "SX9YeI5fU564nmEyY="
)
