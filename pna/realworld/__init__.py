"""The real-world benchmarks of figure 6: ZINC, MolHIV, and the superpixels of CIFAR10 and MNIST.

Networks and training are those of the released code. There are these differences:

- A superpixel's nine nearest lose one as the published ones do, in distribution and not edge by edge.
- ogb has one more category of atoms now than it had then: MolHIV's network has 80 parameters more.
"""
